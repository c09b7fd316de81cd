// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0
'use strict';

const data = JSON.parse(document.getElementById('data').textContent);
const byId = id => document.getElementById(id);
const percent = (share, digits = 2) => share == null ? '-' : `${(100 * share).toFixed(digits)} %`;
const element = (name, text, attributes = {}) => {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

const LEAST = 1e-5;  // the lowest miss that a logarithmic axis shows
const LINES = ['#8a93a0', '#b07aa1', '#9c755f', '#4e9f50', '#7fbf7b', '#e0a030', '#c97b3c', '', '#17a2a2', '#d2481f'];
const STROKES = { random: 'dashed', block_oracle: 'dotted', prev_layer_best5: 'dashed' };
const color = name => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const charts = new Map();

function draw(id, option) {
  if (!charts.has(id)) charts.set(id, echarts.init(byId(id), null, { renderer: 'canvas' }));
  const text = { color: color('text'), fontFamily: getComputedStyle(document.body).fontFamily };
  charts.get(id).setOption({ animation: false, backgroundColor: 'transparent', textStyle: text, ...option }, true);
}

function axis(name, more) {
  return {
    name, nameLocation: 'middle', nameTextStyle: { color: color('quiet') },
    axisLabel: { color: color('quiet'), hideOverlap: true }, axisLine: { lineStyle: { color: color('line') } },
    splitLine: { lineStyle: { color: color('line') } }, ...more,
  };
}

const tooltip = more => ({ backgroundColor: color('card'), borderColor: color('line'), textStyle: { color: color('text') }, confine: true, ...more });
const targets = trace => Object.keys(trace.miss).filter(key => key !== 'policy').sort((a, b) => a - b);

// Lines of miss over sparsity: [{name, points: [[sparsity, miss]], color, width, stroke}].
function drawMisses(id, lines) {
  const log = byId('axis').value === 'log';
  const y = value => log ? Math.max(value, LEAST) : value;
  const narrow = byId(id).clientWidth < 700;
  draw(id, {
    grid: narrow ? { left: 56, right: 12, top: 12, bottom: 190 } : { left: 64, right: 230, top: 16, bottom: 48 },
    legend: { type: 'scroll', orient: 'vertical', textStyle: { color: color('text') }, pageTextStyle: { color: color('text') }, itemWidth: 22,
      ...(narrow ? { left: 0, bottom: 0, height: 140 } : { right: 0, top: 8, width: 210 }) },
    tooltip: tooltip({ trigger: 'item', formatter: p => `${echarts.format.encodeHTML(p.seriesName)}<br>skip ${percent(p.value[0], 1)}: miss <b>${percent(p.value[2], 3)}</b>` }),
    xAxis: axis('realised sparsity', { type: 'value', min: 'dataMin', max: 'dataMax', nameGap: 28, axisLabel: { color: color('quiet'), formatter: v => percent(v, 0) } }),
    yAxis: axis('', { type: log ? 'log' : 'value', min: log ? LEAST : 0, axisLabel: { color: color('quiet'), formatter: v => `${+(100 * v).toPrecision(3)} %` } }),
    series: lines.map(line => ({
      name: line.name, type: 'line', symbol: 'circle', symbolSize: 6, color: line.color, z: line.width > 2 ? 5 : 2,
      lineStyle: { width: line.width, type: line.stroke || 'solid' }, emphasis: { focus: 'series' },
      data: line.points.map(([x, miss]) => [x, y(miss), miss]),
    })),
  });
}

const lineColor = (index, name) => name === 'block_oracle' ? color('text') : LINES[index] || color('accent');

function drawPredictors(trace) {
  drawMisses('predictors', data.predictors.map((predictor, index) => ({
    name: predictor.title, color: lineColor(index, predictor.name), stroke: STROKES[predictor.name],
    width: ['spin', 'query_aware'].includes(predictor.name) ? 3 : predictor.name === 'block_oracle' ? 2.5 : 1.5,
    points: targets(trace).map(t => trace.miss[t][predictor.name]).filter(at => at.mean != null).map(at => [at.sparsity, at.mean]),
  })));
}

function drawLayers(trace) {
  const name = byId('predictor').value;
  const silent = trace.layer_numbers.length - trace.miss[targets(trace)[0]][name].layers.length;
  const ramp = index => `hsl(${215 - 190 * index / Math.max(1, trace.layer_numbers.length - 1)}, 60%, ${matchMedia('(prefers-color-scheme: dark)').matches ? 66 : 42}%)`;
  drawMisses('layers', trace.layer_numbers.slice(silent).map((number, index) => ({
    name: `layer ${number}`, color: ramp(index + silent), width: 2,
    points: targets(trace).map(t => [trace.miss[t][name].sparsity, trace.miss[t][name].layers[index]]),
  })));
}

// Cells as [column, row, state], those of state 0 left out.
function unpack(grid) {
  const bytes = atob(grid.cells), cells = [];
  for (let i = 0; i < grid.rows * grid.columns; ++i) {
    const state = (bytes.charCodeAt(i >> 2) >> (2 * (i & 3))) & 3;
    if (state) cells.push([i % grid.columns, Math.floor(i / grid.columns), state]);
  }
  return cells;
}

function drawMap(id, grid, title) {
  const slot = column => grid.first_slot + column * grid.slots_per_column;
  const step = row => 1 + row * grid.steps_per_row;
  const states = ['', 'kept without need', 'kept and needed', 'missed'];
  draw(id, {
    title: { text: title, left: 0, top: 0, textStyle: { color: color('text'), fontSize: 14, fontWeight: 500 } },
    grid: { left: 56, right: 16, top: 34, bottom: 48 },
    tooltip: tooltip({ formatter: p => `slots ${slot(p.value[0])} to ${slot(p.value[0] + 1) - 1}, step ${step(p.value[1])}<br><b>${states[p.value[2]]}</b>` }),
    xAxis: axis('slot', { type: 'category', nameGap: 28, splitLine: { show: false }, axisTick: { show: false }, data: Array.from({ length: grid.columns }, (_, c) => slot(c)) }),
    yAxis: axis('step', { type: 'category', nameGap: 38, inverse: true, splitLine: { show: false }, axisLabel: { color: color('quiet'), interval: Math.ceil(grid.rows / 8) - 1 }, axisTick: { show: false }, data: Array.from({ length: grid.rows }, (_, r) => step(r)) }),
    visualMap: { show: false, type: 'piecewise', dimension: 2, pieces: ['kept', 'hit', 'missed'].map((name, i) => ({ value: i + 1, color: color(name) })) },
    series: [{ type: 'heatmap', data: unpack(grid), progressive: 0, emphasis: { disabled: true } }],
  });
}

function drawMaps(trace) {
  byId('maps').hidden = !trace.heat_map.length;
  if (!trace.heat_map.length) return;
  const maps = trace.heat_map[byId('layer').value];
  drawMap('map-all', maps.all, 'The whole context');
  drawMap('map-near', maps.near, 'Close to the query, 16 slots a column');
}

function drawBudgets() {
  const advice = data.recommended;
  byId('recommended').hidden = !advice;
  if (!advice) return;
  const tile = (name, value, note) => {
    const made = document.createElement('div');
    made.append(element('dt', name), element('dd', value, { class: 'value' }), element('dd', note, { class: 'note' }));
    return made;
  };
  byId('tiles').replaceChildren(
    tile('Skip', percent(advice.sparsity, 1), 'of all blocks, by budgets of each layer'),
    tile('Miss', percent(advice.miss_mean), `p99 up to ${percent(advice.miss_p99, 1)}; below the ${percent(advice.target_miss)} aimed at, since new text misses more`),
    tile('On other text', percent(advice.held_out_miss_mean), advice.held_out_miss_mean == null ? 'needs a second trace' : 'miss, with budgets from the other traces'),
    tile('One sparsity for all', percent(advice.uniform_sparsity, 1), 'is what that miss would allow'));
  byId('command').textContent = advice.command;
  fillExpected(advice);
  draw('budgets', {
    title: { text: `Dashed: one sparsity for all layers, ${percent(advice.uniform_sparsity, 1)}`, right: 16, top: 0, textStyle: { color: color('missed'), fontSize: 13, fontWeight: 400 } },
    grid: { left: 56, right: 16, top: 34, bottom: 48 },
    tooltip: tooltip({ trigger: 'axis', axisPointer: { type: 'none' }, formatter: ([p]) => `layer ${p.name}: skip <b>${percent(p.value, 1)}</b>` }),
    xAxis: axis('layer', { type: 'category', nameGap: 28, data: data.traces[0].layer_numbers.map(String) }),
    yAxis: axis('', { type: 'value', min: 0, max: 1, axisLabel: { color: color('quiet'), formatter: v => percent(v, 0) } }),
    series: [{
      type: 'bar', data: advice.layer_sparsity, color: color('accent'), barMaxWidth: 44, itemStyle: { borderRadius: [4, 4, 0, 0] },
      markLine: { symbol: 'none', silent: true, lineStyle: { color: color('missed') }, data: [{ yAxis: advice.uniform_sparsity }],
        label: { show: false } },
    }],
  });
}

function fillExpected(advice) {
  const table = document.createElement('table'), head = element('tr', ''), body = document.createElement('tbody'), thead = document.createElement('thead');
  const heldOut = advice.held_out_miss_mean != null;
  const titles = ['', 'skip', 'miss mean', 'miss p99', ...(heldOut ? ['from the others: mean', 'p99'] : [])];
  head.append(...titles.map(title => element(title ? 'th' : 'td', title, title ? { scope: 'col' } : {})));
  for (const trace of advice.traces) {
    const row = document.createElement('tr');
    row.append(element('th', trace.name, { scope: 'row' }), element('td', percent(trace.sparsity, 1)), element('td', percent(trace.miss_mean, 3)), element('td', percent(trace.miss_p99, 2)));
    if (heldOut) row.append(element('td', percent(trace.held_out_miss_mean, 3)), element('td', percent(trace.held_out_miss_p99, 2)));
    body.append(row);
  }
  thead.append(head);
  table.append(element('caption', `With these budgets and ${percent(advice.exploration, 0)} exploration, each trace${heldOut ? ', beside budgets that learnt from the other traces only' : ' (in-sample)'}`), thead, body);
  byId('expected').replaceChildren(table);
}

function fillNumbers(trace) {
  const table = document.createElement('table'), head = element('tr', ''), body = document.createElement('tbody');
  head.append(element('td', ''), ...targets(trace).map(t => element('th', `skip ${percent(t, 0)}`, { scope: 'col' })));
  for (const predictor of data.predictors) {
    const row = document.createElement('tr');
    row.append(element('th', predictor.title, { scope: 'row', title: predictor.meaning }));
    for (const t of targets(trace)) {
      const miss = trace.miss[t][predictor.name];
      row.append(element('td', `${percent(miss.mean, 3)} (${percent(miss.p99, 1)})`));
    }
    body.append(row);
  }
  const thead = document.createElement('thead');
  thead.append(head);
  table.append(element('caption', `Miss mean (p99), ${trace.name}`), thead, body);
  byId('numbers').replaceChildren(table);
}

function fill(select, options) {
  byId(select).replaceChildren(...options.map(([value, text]) => element('option', text, { value })));
}

function drawTrace() {
  const trace = data.traces[byId('trace').value];
  byId('trace-about').textContent = `${trace.name}: ${trace.slots.toLocaleString('en')} slots, ${trace.layers} layers, ${trace.steps} steps; exploration ${percent(trace.exploration, 0)}`;
  drawPredictors(trace);
  drawLayers(trace);
  drawMaps(trace);
  fillNumbers(trace);
}

function drawAll() {
  drawBudgets();
  drawTrace();
}

// The layer that is hardest to predict shows most.
function fillLayers(trace) {
  fill('layer', trace.layer_numbers.map((number, index) => [index, number]));
  const misses = trace.miss[targets(trace).at(-1)].spin.layers;
  byId('layer').value = misses.indexOf(Math.max(...misses));
}

fill('trace', data.traces.map((trace, index) => [index, trace.name]));
fill('predictor', data.predictors.map(predictor => [predictor.name, predictor.title]));
fillLayers(data.traces[0]);
byId('predictor').value = 'spin';
byId('about').textContent = `${data.traces.length === 1 ? '' : `${data.traces.length} traces: `}${data.traces.map(trace => trace.name).join(', ')}; top-K ${data.traces[0].K}, blocks of ${data.traces[0].block}${data.recommended ? `; recommended with ${percent(data.recommended.exploration, 0)} exploration` : ''}`;
byId('copy').addEventListener('click', async () => {
  getSelection().selectAllChildren(byId('command'));  // for where the clipboard is closed
  try {
    await navigator.clipboard.writeText(byId('command').textContent);
    byId('copy').textContent = 'Copied';
  } catch {
    byId('copy').textContent = 'Selected';
  }
});
byId('version').textContent = data.version;
byId('maps-about').textContent = `Spin at ${percent(data.heat_map_sparsity, 0)} sparsity. What is needed at a fixed place stands as a vertical line (V); what is needed at a fixed distance moves along with the query, a diagonal (D), visible close to it.`;
byId('trace').addEventListener('change', () => {
  fillLayers(data.traces[byId('trace').value]);
  drawTrace();
});
for (const id of ['axis', 'predictor', 'layer']) byId(id).addEventListener('change', drawTrace);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', drawAll);
addEventListener('resize', () => { for (const chart of charts.values()) chart.resize(); drawAll(); });
drawAll();

// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// The dashboard as one page, drawn with Grafana's panel components: not a Grafana server, and it says so. What it shows comes in the query:
// dashboard, prometheus, from, to, scrape, theme, width, note, and var-NAME for variables.
import { createTheme, dateTime, type DataFrame, EventBusSrv, FieldType, ThemeContext } from '@grafana/data';
import { BigValue, BigValueColorMode, BigValueGraphMode, BigValueTextMode, GlobalStyles, PanelChrome, PanelContextProvider, Table, TimeSeries } from '@grafana/ui';
import React, { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { dress } from './fields';
import { framesOf, type Place } from './query';

const asked = new URLSearchParams(location.search);
const theme = createTheme({ colors: { mode: asked.get('theme') === 'light' ? 'light' : 'dark' } });
const width = Number(asked.get('width') ?? 1600);
const narrow = width < 768; // Grafana stacks panels there
const place: Place = {
  prometheus: asked.get('prometheus')!, from: Number(asked.get('from')), to: Number(asked.get('to')), scrapeSeconds: Number(asked.get('scrape') ?? 15),
  variables: Object.fromEntries([...asked].filter(([key]) => key.startsWith('var-')).map(([key, value]) => [key.slice(4), value])),
};
const timeRange: any = { from: dateTime(place.from * 1000), to: dateTime(place.to * 1000), raw: { from: 'now-1h', to: 'now' } };
const GAP = 8, CELL_HEIGHT = 30;
let waiting = 0;
const problems: string[] = [];
const note = () => { (window as any).drawn = { waiting, problems, empty }; };
const empty: string[] = [];
const context: any = { eventsScope: 'global', eventBus: new EventBusSrv(), canAddAnnotations: () => false };

function lastOf(values: any[]) {
  for (let i = values.length - 1; i >= 0; --i) if (values[i] !== null && values[i] !== undefined) return values[i];
  return null;
}

function Nothing({ panel }: any) {
  return <div style={{ height: '100%', display: 'flex', alignItems: 'center', justifyContent: 'center', color: theme.colors.text.secondary, textAlign: 'center' }}>{panel.fieldConfig.defaults.noValue}</div>;
}

function Stat({ panel, frames, width, height }: any) {
  const field = frames[0]?.fields.find((one: any) => one.type === FieldType.number);
  const value = field ? lastOf(field.values) : null;
  const shown = value === null ? { text: panel.fieldConfig.defaults.noValue, numeric: NaN, color: theme.colors.text.secondary } : field.display(value);
  const spark = panel.options.graphMode === 'area' && value !== null ? { x: frames[0].fields[0], y: field } : undefined;
  return <BigValue width={width} height={height} value={shown} sparkline={spark as any} theme={theme} colorMode={BigValueColorMode.Value}
    graphMode={spark ? BigValueGraphMode.Area : BigValueGraphMode.None} textMode={BigValueTextMode.Value} />;
}

function Graph({ panel, frames, width, height }: any) {
  const legend = { ...panel.options.legend, calcs: [] };
  return <TimeSeries width={width} height={height} frames={frames} timeRange={timeRange} timeZone="utc" legend={legend}
    options={{ legend, tooltip: panel.options.tooltip } as any} />;
}

function Body({ panel, frames, width, height }: any) {
  const some = frames.some((frame: DataFrame) => frame.fields.some((field) => field.type !== FieldType.time && field.values.some((value: any) => value !== null)));
  if (panel.type === 'stat') return <Stat panel={panel} frames={frames} width={width} height={height} />;
  if (!some) return <Nothing panel={panel} />;
  if (panel.type === 'table') return <Table data={frames[0]} width={width} height={height} />;
  return <PanelContextProvider value={context}><Graph panel={panel} frames={frames} width={width} height={height} /></PanelContextProvider>;
}

function Panel({ panel, box }: any) {
  const [frames, setFrames] = useState<DataFrame[] | null>(null);
  useEffect(() => {
    ++waiting; note();
    framesOf(panel, place).then((raw) => {
      if (!raw.length) empty.push(panel.title);
      setFrames(dress(panel, raw, theme));
    }).catch((error) => { problems.push(`${panel.title}: ${error}`); setFrames([]); }).finally(() => { --waiting; note(); });
  }, []);
  return <div style={{ position: 'absolute', ...box }}>
    <PanelChrome title={panel.title} description={panel.description} width={box.width} height={box.height}>
      {(innerWidth: number, innerHeight: number) => frames ? <Body panel={panel} frames={frames} width={innerWidth} height={innerHeight} /> : <span />}
    </PanelChrome>
  </div>;
}

// Where everything goes: the dashboard's grid, or one column.
function layOut(panels: any[]) {
  const flat: any[] = [];
  let shift = 0; // collapsed rows are drawn open
  for (const panel of panels) {
    flat.push({ panel, grid: { ...panel.gridPos, y: panel.gridPos.y + shift } });
    for (const member of panel.panels ?? []) flat.push({ panel: member, grid: { ...member.gridPos, y: member.gridPos.y + shift } });
    if (panel.panels?.length) shift += Math.max(...panel.panels.map((member: any) => member.gridPos.y + member.gridPos.h)) - panel.gridPos.y - 1;
  }
  if (!narrow) {
    const cell = (width - GAP) / 24;
    return flat.map(({ panel, grid }) => ({ panel, box: { left: GAP + grid.x * cell, top: grid.y * (CELL_HEIGHT + GAP), width: grid.w * cell - GAP, height: grid.h * (CELL_HEIGHT + GAP) - GAP } }));
  }
  let top = 0;
  return flat.map(({ panel, grid }) => {
    const height = panel.type === 'row' ? CELL_HEIGHT : grid.h * (CELL_HEIGHT + GAP) - GAP;
    const box = { left: GAP, top, width: width - 2 * GAP, height };
    top += height + GAP;
    return { panel, box };
  });
}

function Page({ dashboard }: any) {
  const placed = layOut(dashboard.panels);
  const height = Math.max(...placed.map(({ box }) => box.top + box.height)) + GAP;
  const text = { color: theme.colors.text.secondary, fontSize: 12 };
  return <div style={{ width, overflow: "hidden", background: theme.colors.background.canvas, fontFamily: theme.typography.fontFamily }}>
    <div style={{ padding: `${GAP}px ${GAP * 2}px`, display: 'flex', flexWrap: 'wrap', gap: 16, alignItems: 'baseline' }}>
      <span style={{ color: theme.colors.text.primary, fontSize: 18, fontWeight: 500 }}>{dashboard.title}</span>
      <span style={text}>{asked.get('note')}</span>
    </div>
    <div style={{ position: 'relative', height }}>
      {placed.map(({ panel, box }) => panel.type === 'row'
        ? <div key={panel.id} style={{ position: 'absolute', ...box, color: theme.colors.text.primary, fontSize: 15, fontWeight: 500, padding: '6px 4px' }}>{panel.title}</div>
        : <Panel key={panel.id} panel={panel} box={box} />)}
    </div>
  </div>;
}

fetch(asked.get('dashboard')!).then((reply) => reply.json()).then((dashboard) => {
  createRoot(document.getElementById('root')!).render(<ThemeContext.Provider value={theme}><GlobalStyles /><Page dashboard={dashboard} /></ThemeContext.Provider>);
});

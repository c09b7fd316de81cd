// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// A panel's targets, asked of Prometheus as Grafana's datasource would, and the answers as data frames.
import { type DataFrame, FieldType, toDataFrame } from '@grafana/data';

export interface Place {
  prometheus: string;
  from: number; // seconds since the epoch
  to: number;
  variables: Record<string, string>;
  scrapeSeconds: number;
}

// Points a panel gets; Grafana takes one for each pixel.
const POINTS = 300;

function fillIn(expr: string, place: Place, step: number): string {
  const rateInterval = `${Math.max(4 * place.scrapeSeconds, step + place.scrapeSeconds)}s`;
  const known: Record<string, string> = { __rate_interval: rateInterval, __range: `${Math.round(place.to - place.from)}s`, ...place.variables };
  return expr.replace(/\$(\w+)/g, (whole, name) => known[name] ?? whole);
}

function nameOf(legend: string, labels: Record<string, string>): string {
  return legend.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => labels[label] ?? '');
}

async function ask(place: Place, path: string, parameters: Record<string, string | number>) {
  const query = new URLSearchParams(Object.entries(parameters).map(([key, value]) => [key, String(value)]));
  const reply = await (await fetch(`${place.prometheus}/api/v1/${path}?${query}`)).json();
  if (reply.status !== 'success') throw new Error(`${parameters.query}: ${reply.error}`);
  return reply.data.result;
}

async function series(target: any, place: Place): Promise<DataFrame[]> {
  const step = Math.max(place.scrapeSeconds, Math.ceil((place.to - place.from) / POINTS));
  const result = await ask(place, 'query_range', { query: fillIn(target.expr, place, step), start: place.from, end: place.to, step });
  const times = Array.from({ length: Math.floor((place.to - place.from) / step) + 1 }, (_, i) => place.from + i * step);
  return result.map((one: any) => {
    const at = new Map<number, number>(one.values.map(([time, value]: [number, string]) => [Math.round((time - place.from) / step), Number(value)]));
    const name = nameOf(target.legendFormat, one.metric);
    return toDataFrame({
      name, refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: times.map((time) => time * 1000) },
        { name: 'Value', type: FieldType.number, config: { displayNameFromDS: name }, labels: one.metric,
          values: times.map((_, i) => { const value = at.get(i); return value === undefined || Number.isNaN(value) ? null : value; }) },
      ],
    });
  });
}

// One row for each set of labels, one column for each label and for each target's value.
async function rows(targets: any[], place: Place): Promise<DataFrame[]> {
  const answers = await Promise.all(targets.map((target) => ask(place, 'query', { query: fillIn(target.expr, place, place.scrapeSeconds), time: place.to })));
  const labels = [...new Set(answers.flat().flatMap((one: any) => Object.keys(one.metric)))].sort();
  const lines = new Map<string, any>();
  answers.forEach((answer, i) => answer.forEach((one: any) => {
    const key = JSON.stringify(labels.map((label) => one.metric[label] ?? ''));
    const line = lines.get(key) ?? { ...one.metric };
    line[`Value #${targets[i].refId}`] = Number(one.value[1]);
    lines.set(key, line);
  }));
  const numeric = (label: string) => [...lines.values()].every((line) => /^\d+$/.test(line[label] ?? ''));
  const all = [...lines.values()];
  if (labels[0] && numeric(labels[0])) all.sort((a, b) => a[labels[0]] - b[labels[0]]);
  if (!all.length) return [];
  return [toDataFrame({ fields: [
    ...labels.map((label) => ({ name: label, type: FieldType.string, values: all.map((line) => line[label] ?? '') })),
    ...targets.map((target) => ({ name: `Value #${target.refId}`, type: FieldType.number, values: all.map((line) => line[`Value #${target.refId}`] ?? null) })),
  ] })];
}

export async function framesOf(panel: any, place: Place): Promise<DataFrame[]> {
  if (panel.type === 'table') return rows(panel.targets, place);
  return (await Promise.all(panel.targets.map((target: any) => series(target, place)))).flat();
}

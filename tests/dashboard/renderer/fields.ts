// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// What a dashboard says of fields (defaults, overrides by name, organised columns), applied to data frames.
import { applyFieldOverrides, cacheFieldDisplayNames, type DataFrame, FieldType, getDisplayProcessor, getFieldDisplayName, type GrafanaTheme2, ThresholdsMode } from '@grafana/data';

function put(target: any, path: string, value: any) {
  const keys = path.split('.');
  const last = keys.pop()!;
  for (const key of keys) target = target[key] ??= {};
  target[last] = value;
}

// The columns of a table: hidden, renamed and ordered as its transformation says.
function organise(frame: DataFrame, transformations: any[]): DataFrame {
  const { excludeByName = {}, renameByName = {}, indexByName = {} } = transformations.find((one) => one.id === 'organize')?.options ?? {};
  const fields = frame.fields.filter((field) => !excludeByName[field.name]).sort((a, b) => (indexByName[a.name] ?? 99) - (indexByName[b.name] ?? 99));
  for (const field of fields) field.name = renameByName[field.name] ?? field.name;
  return { ...frame, fields };
}

export function dress(panel: any, frames: DataFrame[], theme: GrafanaTheme2): DataFrame[] {
  if (panel.type === 'table') frames = frames.map((frame) => organise(frame, panel.transformations));
  const { defaults, overrides } = panel.fieldConfig;
  frames.forEach((frame, index) => {
    for (const field of frame.fields) {
      if (field.type === FieldType.time) continue;
      const config: any = { ...structuredClone(defaults), ...field.config };
      const name = getFieldDisplayName(field, frame, frames);
      for (const { matcher, properties } of overrides) {
        if (matcher.options !== name) continue;
        for (const { id, value } of properties) put(config, id, value);
      }
      config.thresholds ??= { mode: ThresholdsMode.Absolute, steps: [] };
      for (const step of config.thresholds.steps) step.value ??= -Infinity;
      field.config = config;
      field.state = { ...field.state, seriesIndex: index };
    }
  });
  cacheFieldDisplayNames(frames);
  const data = applyFieldOverrides({ data: frames, fieldConfig: { defaults: {}, overrides: [] }, theme, replaceVariables: (text: string) => text, timeZone: 'utc' } as any);
  data.forEach((frame, index) => {
    for (const field of frame.fields) {
      field.state = { ...field.state, seriesIndex: index };
      field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
    }
  });
  return data;
}

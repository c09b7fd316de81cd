// SPDX-FileCopyrightText: The Spin Authors
// SPDX-License-Identifier: Apache-2.0

// Takes pictures of the built page. usage: shoot.mjs JOBS.json, a list of {url, out, width, most?}: at most so high
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu', '--force-device-scale-factor=1'] });
let failed = false;
for (const job of JSON.parse(readFileSync(process.argv[2]))) {
  const page = await browser.newPage({ viewport: { width: job.width, height: 1000 } });
  page.on('pageerror', (error) => { failed = true; console.error(`${job.out}: ${error}`); });
  await page.goto(job.url);
  await page.waitForFunction(() => window.drawn && window.drawn.waiting === 0, undefined, { timeout: 120000 });
  await page.waitForTimeout(1500); // charts draw after their data
  const { problems, empty } = await page.evaluate(() => window.drawn);
  // Titles that do not fit are cut with an ellipsis: find them.
  const clipped = await page.evaluate(() => [...document.querySelectorAll('h2, [data-testid*="title"]')].filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.textContent));
  for (const problem of problems) { failed = true; console.error(`${job.out}: ${problem}`); }
  console.log(JSON.stringify({ out: job.out, empty, clipped: [...new Set(clipped)] }));
  const height = Math.min(job.most ?? Infinity, await page.evaluate(() => document.documentElement.scrollHeight));
  await page.screenshot({ path: job.out, fullPage: true, clip: { x: 0, y: 0, width: job.width, height } });
  await page.close();
}
await browser.close();
process.exit(failed ? 1 : 0);

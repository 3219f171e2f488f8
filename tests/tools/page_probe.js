/* Run in a page behind its own script: does what a reader does, and gives a line for each thing that is not as it
   should be. page_browser runs it. */
(async () => {
  const wrong = [];
  const check = (holds, what) => { if (!holds) wrong.push(what); };
  const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  const one = what => document.querySelector(what);
  const data = JSON.parse(one('#data').textContent);
  const dark = matchMedia('(prefers-color-scheme: dark)').matches;
  try {
    /* what stands in it is seen */
    check(one('h1').textContent.length > 0, 'no heading');
    const ground = getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number);
    check(dark === (ground[0] + ground[1] + ground[2] < 200), `ground ${ground} though dark is ${dark}`);
    const ink = getComputedStyle(document.body).color.match(/\d+/g).map(Number);
    check(Math.abs(ink[0] - ground[0]) > 120, `ink ${ink} on ground ${ground}`);
    check(document.documentElement.scrollWidth <= innerWidth, `the page is wider than ${innerWidth}`);
    for (const svg of document.querySelectorAll('#maps svg.map, svg.chart')) {
      const { left, right } = svg.getBoundingClientRect();
      check(left >= 0 && right <= innerWidth, `a picture from ${left} to ${right} of ${innerWidth} pixels`);
      for (const t of svg.querySelectorAll('text')) {
        const size = parseFloat(getComputedStyle(t).fontSize) * svg.getScreenCTM().a;
        if (!(size >= 9)) { check(false, `'${t.textContent}' is ${size} pixels tall`); break; }
        const from = t.getBoundingClientRect().left;
        if (!(from >= 0)) { check(false, `'${t.textContent}' begins at ${from}`); break; }
      }
    }
    /* no number of an axis and no name beside it lies over another one */
    for (const svg of document.querySelectorAll('#maps svg.map, svg.chart')) {
      const seen = [...svg.querySelectorAll('text')].filter(t => !t.closest('.names') && t.getClientRects().length > 0);
      const texts = seen.map(t => ({ t, at: t.getBoundingClientRect() })).filter(e => e.at.width > 0);
      texts.forEach((a, i) => texts.slice(0, i).forEach(b => {
        const wide = Math.min(a.at.right, b.at.right) - Math.max(a.at.left, b.at.left);
        const tall = Math.min(a.at.bottom, b.at.bottom) - Math.max(a.at.top, b.at.top);
        check(wide < 2 || tall < 0.35 * a.at.height, `'${a.t.textContent}' lies over '${b.t.textContent}'`);
      }));
    }
    /* in a wide window nothing is cut off, and on paper nothing can be scrolled to */
    const fits = where => {
      for (const e of document.querySelectorAll('.wide, .rows'))
        check(e.scrollWidth <= e.clientWidth + 1, `${where}, what is ${e.scrollWidth} pixels wide is cut at ${e.clientWidth}`);
    };
    if (innerWidth > 1200 || matchMedia('print').matches) fits(`${innerWidth} pixels`);
    for (const b of document.querySelectorAll('button'))
      check((b.getAttribute('aria-label') || b.textContent).trim() !== '', 'a button without a name');
    if (matchMedia('print').matches) return wrong;
    if (data.plan) {
      const boxes = [...document.querySelectorAll('#maps .both [data-of=tensor] rect')];
      check(boxes.length > 0, 'no boxes');
      check(boxes.every(b => b.getBoundingClientRect().width > 0), 'a box without width');
      check(boxes.some(b => b.getBoundingClientRect().width > 20), 'no box that is seen');
      check(document.querySelectorAll('#tensors tbody tr').length === Math.min(100, data.plan.tensor.name.length), 'rows of the table');

      /* bytes are rounded as the program rounds them: what is in the middle to the even one */
      const rounded = bytes => {
        let unit = 0, by = 1n;
        for (; Number(bytes) / Number(by) >= 1023.995; unit++) by *= 1024n;
        if (unit === 0) return `${bytes} B`;
        const low = bytes * 100n / by, rest = 2n * (bytes * 100n % by);
        const near = rest > by || (rest === by && low % 2n === 1n) ? low + 1n : low;
        return `${near / 100n}.${String(near % 100n).padStart(2, '0')} ${['B', 'KiB', 'MiB', 'GiB'][unit]}`;
      };
      for (const row of document.querySelectorAll('#tensors tbody tr')) {
        const bytes = BigInt(data.plan.tensor.bytes[+row.dataset.i]);
        check(row.cells[2].textContent === rounded(bytes), `${bytes} bytes are '${row.cells[2].textContent}', not ${rounded(bytes)}`);
      }

      /* zoom: a button makes boxes wider, the other one takes it back */
      const width = () => boxes[0].getBoundingClientRect().width;
      const before = width();
      one('[data-zoom=in]').click();
      await frame();
      check(width() > 1.5 * before, `zoomed in, a box of ${before} is ${width()} wide`);
      const numbers = [...document.querySelectorAll('#maps .ticks text')];
      check(numbers.length > 1 && numbers.every(t => / (B|[KMGT]iB)$/.test(t.textContent)), 'no addresses beside what is enlarged');
      one('[data-zoom=all]').click();
      await frame();
      check(document.querySelectorAll('#maps .ticks text').length === 0, 'addresses stay behind');
      check(Math.abs(width() - before) < 0.01, `whole again, a box of ${before} is ${width()} wide`);

      /* the wheel zooms where it points: what is there stays there */
      const svg = one('#maps svg'), at = svg.getBoundingClientRect();
      const rect = boxes[Math.floor(boxes.length / 2)], there = rect.getBoundingClientRect();
      svg.dispatchEvent(new WheelEvent('wheel', { bubbles: true, cancelable: true, ctrlKey: true, deltaY: -300,
        clientX: there.left, clientY: there.top }));
      await frame();
      const now = rect.getBoundingClientRect();
      check(now.width > 2 * there.width, 'the wheel does not zoom');
      const low = at.left + at.width * 84 / 1000, high = at.left + at.width * 984 / 1000;
      if (there.left > low + 2 && there.left < high - 2)
        check(Math.abs(now.left - there.left) < 3, `the wheel moves ${there.left} to ${now.left}`);
      one('[data-zoom=all]').click();
      await frame();

      /* finding: the table shows what matches, Enter goes there */
      const wanted = +rect.dataset.i, name = data.plan.tensor.name[wanted];
      const find = one('#find');
      find.value = name;
      find.dispatchEvent(new Event('input'));
      const names = () => [...document.querySelectorAll('#tensors tbody tr')].map(r => r.cells[0].textContent);
      check(names().includes(name), `'${name}' is not found`);
      check(names().every(n => n.includes(name)), 'found what was not asked for');
      find.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }));
      await frame();
      check(!one('#chosen').hidden && one('#chosen').textContent.includes(names()[0]), 'the tensor is not described');
      check(document.querySelectorAll('#maps rect.found').length > 0, 'the tensor is not marked');
      find.value = 'no such tensor';
      find.dispatchEvent(new Event('input'));
      check(names().length === 0 && one('#count').textContent.startsWith('0 of 0'), 'found what is not there');
      find.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape' }));
      await frame();
      check(names().length > 0, 'Escape does not show all again');

      /* sorting by bytes and back */
      const largest = document.querySelector('#tensors tbody tr td:nth-child(3)').textContent;
      one('[data-by=bytes]').click();
      check(document.querySelector('#tensors tbody tr td:nth-child(3)').textContent !== largest, 'not sorted');

      /* keys that the browser has for itself are left to it; a row that was chosen by one keeps the focus */
      const pressed = (key, more) => {
        const event = new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...more });
        svg.dispatchEvent(event);
        return event.defaultPrevented;
      };
      for (const more of [{ ctrlKey: true }, { metaKey: true }, { altKey: true }])
        for (const key of ['+', '-', '0', 'ArrowLeft']) check(!pressed(key, more), `${key} is taken with ${Object.keys(more)}`);
      check(pressed('+') && pressed('0'), 'plus and 0 do nothing');
      const row = one('#tensors tbody tr'), which = row.dataset.i;
      row.focus();
      row.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
      check(document.activeElement.dataset.i === which, 'a chosen row loses the focus');
      await frame();

      /* seconds are those of the plan, not of the rectangle that stands for them */
      for (const r of document.querySelectorAll('#maps [data-seconds] [data-of=op] rect')) {
        r.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: 300, clientY: 300 }));
        const told = one('#tip').textContent.match(/: (\S+) ms from (\S+) ms on$/);
        check(told && Math.abs(told[1] - 1e3 * r.dataset.took) <= 1e-3 * told[1] && Math.abs(told[2] - 1e3 * r.dataset.from) < 6e-4,
          `'${one('#tip').textContent}' of ${r.dataset.took} s`);
      }

      /* seconds go with what they stand below */
      const clock = document.querySelector('#maps .seconds');
      if (clock) {
        const scene = clock.parentNode, place = scene.getBoundingClientRect(), told = () => clock.textContent;
        const first = told();
        scene.dispatchEvent(new WheelEvent('wheel', { bubbles: true, cancelable: true, ctrlKey: true, deltaY: -300,
          clientX: place.left + place.width / 2, clientY: place.top + 20 }));
        await frame();
        const span = parseFloat(clock.querySelector('text:last-of-type').textContent) - parseFloat(clock.querySelector('text').textContent);
        check(told() !== first, 'seconds do not follow');
        const all = data.plan.seconds * (data.plan.seconds < 1 ? 1e3 : 1);
        check(span > all / 3.3 && span < all / 2.3, `${span} of ${all} are seen, enlarged e times`);
        one('[data-zoom=all]').click();
        await frame();
        check(Math.abs(parseFloat(clock.querySelector('text').textContent)) < 1e-9, 'seconds do not begin at 0');
      }

      /* what is under the mouse is told */
      rect.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: there.left, clientY: there.top }));
      check(!one('#tip').hidden && one('#tip').textContent.includes(name), 'no word on what is under the mouse');
    }
    if (data.course) {
      const chart = one('#loss'), where = chart.getBoundingClientRect();
      check(where.height > 50, 'no chart of losses');
      chart.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: where.left + where.width / 2, clientY: where.top }));
      check(one('#tip').textContent.includes('loss'), 'no loss under the mouse');
      const press = key => chart.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
      for (let i = 0; i < 400; i++) press('ArrowLeft');
      check(chart.tabIndex === 0 && one('#tip').textContent.startsWith(`step ${data.course.step[0]}\n`), 'keys do not go to the first step');
      press('ArrowRight');
      check(one('#tip').textContent.startsWith(`step ${data.course.step[1]}\n`), 'a key does not go to the second step');
      for (const c of document.querySelectorAll('svg.chart')) check(/\bsteps\b/.test(c.textContent), `${c.id} does not say over what it is`);
    }
    for (const table of [...document.querySelectorAll('table.plain')].filter(t => t.querySelector('[data-v]'))) {
      const column = () => [...table.tBodies[0].rows].map(r => +r.querySelector('[data-v]').dataset.v);
      const head = table.rows[0].cells[[...table.tBodies[0].rows[0].cells].findIndex(c => c.dataset.v !== undefined)];
      head.querySelector('button').click();
      check(column().every((v, i, all) => i === 0 || all[i - 1] <= v), `not sorted: ${column()}`);
      head.querySelector('button').click();
      check(column().every((v, i, all) => i === 0 || all[i - 1] >= v), `not sorted downwards: ${column()}`);
    }
    for (const picture of document.querySelectorAll('.samples img'))
      check(picture.complete && picture.naturalWidth > 0, 'a picture that is not shown');
    check(window.hostile === undefined, 'a name has run as a script');
    check(document.querySelectorAll('b.hostile').length === 0, 'a name has become a part of the page');
  } catch (e) {
    wrong.push(String(e));
  }
  return wrong;
})();

/* What a report does: shows what is under the mouse, zooms in on the map of a plan, and finds tensors in it. Texts of
   the data become text nodes and nothing else, so no name can become a part of the page. */
'use strict';
(() => {
  const data = JSON.parse(document.getElementById('data').textContent);
  const one = (what, from = document) => from.querySelector(what);
  const all = (what, from = document) => [...from.querySelectorAll(what)];
  const make = (name, text) => {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const of_browser = key => key.ctrlKey || key.metaKey || key.altKey; /* its own zoom, back and forward */
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  /* As dt_human_bytes rounds: what is in the middle, such as 1.125, to the even one; toFixed takes the larger. */
  const human = bytes => {
    let i = 0;
    for (; bytes >= 1023.995 && i + 1 < units.length; i++) bytes /= 1024;
    const eighths = bytes * 8, low = Math.floor(bytes * 100);
    if (i > 0 && Number.isInteger(eighths) && eighths % 2 === 1) bytes = (low + low % 2) / 100;
    return bytes.toFixed(i > 0 ? 2 : 0) + ' ' + units[i];
  };

  /* ---- what is under the mouse ---- */

  const tip = one('#tip');
  const tell = (event, text) => {
    tip.hidden = text === '';
    tip.textContent = text;
    const left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
    const below = event.clientY + 18 + tip.offsetHeight < innerHeight;
    tip.style.left = Math.max(4, left) + 'px';
    tip.style.top = (below ? event.clientY + 18 : event.clientY - tip.offsetHeight - 10) + 'px';
  };
  const quiet = () => { tip.hidden = true; };

  /* ---- charts ---- */

  const short = v => v === null || v === undefined ? '–' : Number(v.toPrecision(4)).toString();
  for (const chart of all('svg.chart')) {
    const course = data.course;
    const cross = one('.cross', chart), least = +chart.dataset.least, most = +chart.dataset.most;
    if (!course) continue;
    let last = -1;
    const across = i => 62 + 924 * (course.step[i] - least) / (most - least);
    const show = (i, event) => {
      last = i;
      cross.setAttribute('transform', `translate(${across(i)} 0)`);
      cross.setAttribute('visibility', 'visible');
      tell(event, `step ${course.step[i]}\nloss ${short(course.loss[i])}, smoothed ${short(course.smoothed[i])}\n` +
        `${short(course.rate[i])} samples a second\nlearning rate ${short(course.lr[i])}`);
    };
    const hide = () => { cross.setAttribute('visibility', 'hidden'); quiet(); };
    chart.tabIndex = 0;
    chart.setAttribute('role', 'img');
    chart.setAttribute('aria-label', `${one('.caption', chart).textContent} by step; left and right go through the steps`);
    chart.addEventListener('pointermove', event => {
      const { x } = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
      const at = least + (most - least) * (x - 62) / 924;
      let i = 0;
      course.step.forEach((s, k) => { if (Math.abs(s - at) < Math.abs(course.step[i] - at)) i = k; });
      show(i, event);
    });
    chart.addEventListener('keydown', event => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (by === undefined || of_browser(event)) return;
      event.preventDefault();
      const i = Math.min(Math.max(last + by, 0), course.step.length - 1);
      const { x, y } = new DOMPoint(across(i), 26).matrixTransform(chart.getScreenCTM());
      show(i, { clientX: x, clientY: y });
    });
    chart.addEventListener('pointerleave', hide);
    chart.addEventListener('blur', hide);
  }

  /* ---- tables: a click on a heading sorts by that column ---- */

  for (const table of all('table.plain')) {
    const value = (row, k) => row.cells[k].dataset.v === undefined ? row.cells[k].textContent : +row.cells[k].dataset.v;
    all('th', table).forEach((head, k) => head.addEventListener('click', () => {
      const up = head.getAttribute('aria-sort') !== 'ascending';
      all('th', table).forEach(h => h.removeAttribute('aria-sort'));
      head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      const rows = [...table.tBodies[0].rows].sort((a, b) => {
        const x = value(a, k), y = value(b, k);
        return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1);
      });
      table.tBodies[0].append(...rows);
    }));
  }

  /* ---- the map ---- */

  const plan = data.plan;
  if (!plan) return;
  const LEFT = 84, WIDE = 900, MOST = 400;
  const SVG = 'http://www.w3.org/2000/svg';
  const pictures = all('#maps svg.map');
  /* How wide a letter is: the picture is drawn for letters of 11 pixels, and a narrow window has larger ones. */
  let letter = 5.8, drawn = true;
  const measure = () => {
    const size = parseFloat(getComputedStyle(one('text', pictures[0])).fontSize) || 11;
    letter = 5.8 * size / 11;
    drawn = size <= 11;
  };
  const tensors = plan.tensor.name.map((name, i) => ({
    i, name, role: plan.roles[plan.tensor.role[i]], bytes: plan.tensor.bytes[i], stays: plan.tensor.stays[i] === 1,
    boxes: [], made: [], read: [], fates: [], from: plan.tensor.from[i] ?? Infinity, to: plan.tensor.to[i],
  }));
  plan.op.name.forEach((name, k) => {
    for (const t of plan.op.writes[k]) tensors[t].made.push(k);
    for (const t of plan.op.reads[k]) tensors[t].read.push(k);
  });
  for (const [t, fate, why] of plan.fate) tensors[t].fates.push([fate, plan.reason[why]]);
  const ops = plan.op.name.length;
  const box = rect => ({
    rect, x: +rect.getAttribute('x'), y: +rect.getAttribute('y'), w: +rect.getAttribute('width'),
    h: +rect.getAttribute('height'),
  });
  for (const rect of all('#maps .both [data-of=tensor] rect')) tensors[+rect.dataset.i].boxes.push(box(rect));
  for (const t of tensors) {
    t.done = [...new Set(t.fates.map(f => f[0]))].join(', ');
    t.words = `${t.name} ${t.role} ${t.done}`.toLowerCase();
  }

  const names = list => {
    const shown = list.slice(0, 6).map(k => plan.op.name[k]).join(', ');
    return shown + (list.length > 6 ? `, and ${list.length - 6} more` : '');
  };
  const describe = t => {
    const lines = [`${t.name}: ${t.role}, ${human(t.bytes)}`];
    if (t.stays) lines.push('on the device all the time');
    else if (t.boxes.length > 0)
      lines.push(`on the device ${t.boxes.length === 1 ? 'once' : t.boxes.length + ' times'}, from op ${t.from} to ${t.to} of ${ops}`);
    if (t.made.length > 0) lines.push('made by ' + names(t.made));
    if (t.read.length > 0) lines.push('read by ' + names(t.read));
    for (const f of new Set(t.fates.map(f => f.join(': ')))) lines.push(f);
    return lines.join('\n');
  };

  /* What a rectangle stands for: its group says of which table its number is. */
  const meaning = rect => {
    const of = rect.parentNode.dataset.of, i = +rect.dataset.i;
    const seconds = rect.closest('[data-seconds]');
    if (seconds) {
      const what = of === 'wait' ? 'waits' : of === 'op' ? plan.op.name[i] : plan.tensor.name[i];
      return `${what}\n${seconds.dataset.seconds}: ${short(rect.dataset.took * 1e3)} ms from ${(rect.dataset.from * 1e3).toFixed(3)} ms on`;
    }
    if (of === 'role') {
      const stay = tensors.filter(t => t.stays && plan.tensor.role[t.i] === i);
      return `${plan.roles[i]}, which stay: ${human(stay.reduce((sum, t) => sum + t.bytes, 0))} in ${stay.length} tensors`;
    }
    if (of === 'op') return `${plan.op.name[i]}\n${plan.kinds[plan.op.kind[i]]}, op ${i} of ${ops}`;
    const t = tensors[i];
    return `${t.name}\n${t.role}, ${human(t.bytes)}` + (t.done ? '\n' + t.done : '');
  };

  /* -- zoom: one for all that goes by ops, one for what goes by seconds -- */

  const view = svg => {
    const v = { svg, sx: 1, sy: 1, tx: 0, ty: 0 };
    const frame = one('.both', svg) && one('.both', svg).parentNode;
    if (frame) {
      [, v.top, , v.tall] = frame.getAttribute('viewBox').split(' ').map(Number);
      v.names = one('.names', frame);
      v.live = frame.appendChild(document.createElementNS(SVG, 'g'));
      v.live.setAttribute('class', 'names');
      v.axis = one('.axis', svg);
      v.ticks = svg.appendChild(document.createElementNS(SVG, 'g'));
      v.ticks.setAttribute('class', 'ticks');
      v.each = plan.peak / (v.top + v.tall - one('.axis g:last-child', svg).dataset.y); /* bytes a pixel */
    }
    return v;
  };
  const views = pictures.map(view);

  const clamp = v => {
    v.sx = Math.min(Math.max(v.sx, 1), MOST);
    v.sy = Math.min(Math.max(v.sy, 1), MOST);
    v.tx = Math.min(Math.max(v.tx, (LEFT + WIDE) * (1 - v.sx)), LEFT * (1 - v.sx));
    if (v.top !== undefined)
      v.ty = Math.min(Math.max(v.ty, (v.top + v.tall) * (1 - v.sy)), v.top * (1 - v.sy));
  };

  const text = (into, x, y, words, kind) => {
    const t = into.appendChild(document.createElementNS(SVG, 'text'));
    t.setAttribute('x', x);
    t.setAttribute('y', y);
    if (kind) t.setAttribute('class', kind);
    t.textContent = words;
  };

  /* Names on the boxes that have room for them now. */
  const label = v => {
    v.live.replaceChildren();
    const whole = v.sx === 1 && v.sy === 1 && drawn;
    v.names.style.display = whole ? '' : 'none';
    if (whole) return;
    for (const t of tensors)
      for (const b of t.boxes) {
        const x = Math.max(LEFT, b.x * v.sx + v.tx), end = Math.min(LEFT + WIDE, (b.x + b.w) * v.sx + v.tx);
        const y = Math.max(v.top, b.y * v.sy + v.ty), below = Math.min(v.top + v.tall, (b.y + b.h) * v.sy + v.ty);
        const room = Math.floor((end - x - 8) / letter);
        if (room < 4 || below - y < 2 * letter || (room < 10 && t.name.length > room)) continue;
        text(v.live, x + 4, (y + below) / 2 + 4, t.name.length > room ? t.name.slice(0, room - 1) + '…' : t.name);
      }
  };

  /* Addresses in round numbers, where the zoom has taken those that are written there out of sight. */
  const tick = v => {
    v.ticks.replaceChildren();
    v.axis.style.display = v.sy === 1 ? '' : 'none';
    if (v.sy === 1) return;
    const zero = v.top + v.tall, bytes = y => (zero - (y - v.ty) / v.sy) * v.each;
    const step = 2 ** Math.ceil(Math.log2((bytes(v.top) - bytes(zero)) / 6));
    for (let b = Math.ceil(bytes(zero) / step) * step; b <= bytes(v.top); b += step) {
      const y = (zero - b / v.each) * v.sy + v.ty;
      text(v.ticks, LEFT - 6, y + 4, human(b), 'end');
      const line = v.ticks.appendChild(document.createElementNS(SVG, 'path'));
      line.setAttribute('class', 'line');
      line.setAttribute('d', `M${LEFT - 4} ${y}H${LEFT}`);
    }
  };

  const draw = v => {
    measure();
    clamp(v);
    v.svg.classList.toggle('far', v.sx > 1 || v.sy > 1);
    for (const g of all('.zoom', v.svg))
      g.setAttribute('transform', g.classList.contains('both')
        ? `matrix(${v.sx} 0 0 ${v.sy} ${v.tx} ${v.ty})` : `matrix(${v.sx} 0 0 1 ${v.tx} 0)`);
    for (const p of all('pattern', v.svg))
      p.setAttribute('patternTransform', `scale(${1 / v.sx} ${1 / v.sy})`);
    for (const g of all('[data-x]', v.svg)) {
      const x = +g.dataset.x, now = x * v.sx + v.tx;
      g.setAttribute('transform', `translate(${now - x} 0)`);
      g.style.display = now < LEFT - 1 || now > LEFT + WIDE + 1 ? 'none' : '';
    }
    for (const t of all('.seconds text', v.svg)) {
      const at = ((+t.getAttribute('x') - v.tx) / v.sx - LEFT) / WIDE * plan.seconds;
      t.dataset.whole = t.dataset.whole || t.textContent;
      t.textContent = v.sx === 1 ? t.dataset.whole : plan.seconds < 1 ? `${short(at * 1e3)} ms` : `${short(at)} s`;
    }
    for (const t of all('[data-room]', v.svg)) { /* in the middle of what is seen of its stage */
      const x = +t.parentNode.dataset.x, half = t.dataset.room / 2;
      const low = Math.max(LEFT, (x - half) * v.sx + v.tx), high = Math.min(LEFT + WIDE, (x + half) * v.sx + v.tx);
      t.parentNode.setAttribute('transform', `translate(${(low + high) / 2 - x} 0)`);
      t.parentNode.style.display = '';
      t.classList.toggle('tight', high - low < letter * t.textContent.length + 4);
    }
    for (const g of all('[data-y]', v.svg)) {
      const y = +g.dataset.y, now = y * v.sy + v.ty;
      g.setAttribute('transform', `translate(0 ${now - y})`);
      g.style.display = now < v.top - 1 || now > v.top + v.tall + 1 ? 'none' : '';
    }
    if (v.live) { label(v); tick(v); }
  };

  let waiting = false, rest = 0;
  const redraw = () => {
    clearTimeout(rest);
    rest = setTimeout(() => views.forEach(v => v.svg.classList.remove('moving')), 200);
    if (waiting) return;
    waiting = true;
    views.forEach(v => v.svg.classList.add('moving'));
    requestAnimationFrame(() => { waiting = false; views.forEach(draw); });
  };

  const place = (v, event) => {
    const p = new DOMPoint(event.clientX, event.clientY).matrixTransform(v.svg.getScreenCTM().inverse());
    return [p.x, p.y];
  };
  const zoom = (v, by, x, y, across) => {
    const sx = Math.min(Math.max(v.sx * by, 1), MOST), sy = across || !v.live ? v.sy : Math.min(Math.max(v.sy * by, 1), MOST);
    v.tx = x - (x - v.tx) * sx / v.sx;
    v.ty = y - (y - v.ty) * sy / v.sy;
    v.sx = sx;
    v.sy = sy;
    redraw();
  };
  const whole = v => { v.sx = v.sy = 1; v.tx = v.ty = 0; redraw(); };

  for (const v of views) {
    let from = null, moved = false;
    v.svg.tabIndex = 0;
    v.svg.setAttribute('role', 'group');
    v.svg.setAttribute('aria-label', `the plan by ${v.live ? 'addresses' : 'seconds'}; plus and minus zoom, arrows move, 0 shows all`);
    v.svg.addEventListener('wheel', event => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(v, Math.exp(-event.deltaY / 300), ...place(v, event), event.shiftKey);
    }, { passive: false });
    v.svg.addEventListener('dblclick', event => zoom(v, 2, ...place(v, event), event.shiftKey));
    v.svg.addEventListener('pointerdown', event => { from = [event.clientX, event.clientY, v.tx, v.ty]; moved = false; });
    v.svg.addEventListener('pointermove', event => {
      if (from && event.buttons === 1) {
        const scale = 1 / v.svg.getScreenCTM().a, dx = event.clientX - from[0], dy = event.clientY - from[1];
        moved = moved || Math.abs(dx) + Math.abs(dy) > 4;
        if (moved) { v.tx = from[2] + dx * scale; v.ty = from[3] + dy * scale; quiet(); redraw(); }
      } else {
        const rect = event.target.closest('.zoom rect');
        rect ? tell(event, meaning(rect)) : quiet();
      }
    });
    v.svg.addEventListener('pointerleave', () => { from = null; quiet(); });
    v.svg.addEventListener('pointerup', () => { from = null; });
    v.svg.addEventListener('click', event => {
      const rect = event.target.closest('[data-of=tensor] rect');
      if (!moved) choose(rect && rect.dataset.i ? tensors[+rect.dataset.i] : null);
    });
    v.svg.addEventListener('keydown', event => {
      if (of_browser(event)) return;
      const step = { ArrowLeft: [80, 0], ArrowRight: [-80, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
      if (event.key === '+' || event.key === '=') zoom(v, 1.5, LEFT + WIDE / 2, v.top + v.tall / 2 || 0);
      else if (event.key === '-') zoom(v, 1 / 1.5, LEFT + WIDE / 2, v.top + v.tall / 2 || 0);
      else if (event.key === '0') whole(v);
      else if (step && (v.sx > 1 || v.sy > 1)) { v.tx += step[0]; v.ty += step[1]; redraw(); }
      else return;
      event.preventDefault();
    });
  }
  addEventListener('resize', () => views.forEach(draw));
  for (const b of all('[data-zoom]'))
    b.addEventListener('click', () => {
      const v = views[0], how = b.dataset.zoom;
      if (how === 'all') views.forEach(whole);
      else zoom(v, how === 'in' ? 1.6 : 1 / 1.6, LEFT + WIDE / 2, v.top + v.tall / 2);
    });

  /* So that the tensor's boxes fill a good part of the picture. */
  const go = t => {
    const v = views[0];
    if (t.boxes.length === 0) return;
    const x = Math.min(...t.boxes.map(b => b.x)), end = Math.max(...t.boxes.map(b => b.x + b.w));
    const y = Math.min(...t.boxes.map(b => b.y)), below = Math.max(...t.boxes.map(b => b.y + b.h));
    v.sx = Math.min(0.6 * WIDE / (end - x), MOST);
    v.sy = Math.min(0.4 * v.tall / (below - y), MOST);
    clamp(v);
    v.tx = LEFT + WIDE / 2 - (x + end) / 2 * v.sx;
    v.ty = v.top + v.tall / 2 - (y + below) / 2 * v.sy;
    redraw();
  };

  /* -- the table -- */

  const body = one('#tensors tbody'), find = one('#find'), count = one('#count'), more = one('#more');
  const chosenBox = one('#chosen');
  let by = 'bytes', up = false, room = 100, chosen = null, found = tensors;

  const mark = list => {
    for (const v of views) {
      all('rect.found', v.svg).forEach(r => r.classList.remove('found'));
      v.svg.classList.toggle('choosing', list !== null);
    }
    if (list === null) return;
    const wanted = new Set(list.map(t => t.i));
    for (const rect of all('#maps [data-of=tensor] rect'))
      if (wanted.has(+rect.dataset.i)) rect.classList.add('found');
  };

  const fill = () => {
    const words = find.value.toLowerCase().split(/\s+/).filter(w => w);
    found = tensors.filter(t => words.every(w => t.words.includes(w)));
    const order = up ? 1 : -1;
    found.sort((a, b) => (a[by] < b[by] ? -1 : a[by] > b[by] ? 1 : 0) * order || a.i - b.i);
    body.replaceChildren(...found.slice(0, room).map(t => {
      const row = make('tr');
      const ops = t.boxes.length > 0 || t.stays ? `${t.from}–${t.to}` : '';
      [t.name, t.role, human(t.bytes), ops, t.done].forEach((words, k) => {
        const cell = row.appendChild(make('td', words));
        if (k === 2 || k === 3) cell.className = 'number';
      });
      row.tabIndex = 0;
      row.dataset.i = t.i;
      row.classList.toggle('chosen', t === chosen);
      return row;
    }));
    count.textContent = `${Math.min(room, found.length)} of ${found.length} tensors` +
      (words.length > 0 ? `, of ${tensors.length} in all` : '');
    more.hidden = found.length <= room;
    if (!chosen) mark(words.length > 0 ? found : null);
  };

  function choose(t) {
    chosen = t;
    chosenBox.hidden = t === null;
    chosenBox.textContent = t === null ? '' : describe(t);
    if (t !== null) {
      const go_there = chosenBox.appendChild(make('button', 'zoom to it'));
      go_there.type = 'button';
      go_there.style.display = 'block';
      go_there.hidden = t.boxes.length === 0;
      go_there.addEventListener('click', () => go(t));
      mark([t]);
    }
    fill();
  }

  find.addEventListener('input', () => { room = 100; chosen = null; chosenBox.hidden = true; fill(); });
  find.addEventListener('keydown', event => {
    if (event.key === 'Enter' && found.length > 0) { choose(found[0]); go(found[0]); }
    if (event.key === 'Escape') { find.value = ''; choose(null); views.forEach(whole); }
  });
  const pick = event => {
    const row = event.target.closest('tr');
    if (!row || (event.type !== 'click' && event.key !== 'Enter')) return;
    choose(tensors[+row.dataset.i]);
    one(`[data-i="${row.dataset.i}"]`, body).focus({ preventScroll: true }); /* a new row stands for it */
  };
  body.addEventListener('click', pick);
  body.addEventListener('keydown', pick);
  more.addEventListener('click', () => { room += 400; fill(); });
  for (const b of all('#tensors th button'))
    b.addEventListener('click', () => {
      up = by === b.dataset.by ? !up : b.dataset.by !== 'bytes';
      by = b.dataset.by;
      all('#tensors th').forEach(h => h.removeAttribute('aria-sort'));
      b.parentNode.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      fill();
    });
  fill();
  views.forEach(draw);
})();

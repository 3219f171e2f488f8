#!/usr/bin/env python3
"""Rows of a CSV file as tensors, for data.source = tensors.

    tools/table.py FILE.csv OUT --label COLUMN [--batch N] [--held SHARE] [--ranges N | --number]

writes OUT-train.safetensors and OUT-val.safetensors, and prints what to write into a configuration. The
first row names the columns. A column of numbers becomes one of the same, less its mean and divided by its
standard deviation, where the mean stands for values that are missing (empty, NA, NaN, null, none, ?);
another becomes one of 0 and 1 for each of its texts, of which there may be 100. COLUMN is what is learned:
each of its texts is a class, in the order of their names, or with --ranges N each of N ranges of numbers
that hold as many rows. With --number it is a number, for a loss such as mse, less its mean and divided by
its deviation. SHARE of the rows (0.2), which are picked at random, are held out. Means, deviations and
ranges are those of the other rows. A step takes N of them (32).
"""

import argparse
import csv
import json
import math
import os
import random
import statistics
import struct
import sys
import textwrap
from array import array
from bisect import bisect_right
from pathlib import Path

MOST_TEXTS = 100
MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}


class Bad(Exception):
    pass


def texts_of(f, path):
    """Its lines, which are UTF-8."""
    for at, line in enumerate(f, 1):
        try:
            line.encode()
        except UnicodeEncodeError as e:
            byte = ord(line[e.start]) - 0xdc00  # what surrogateescape makes of it
            raise Bad(f"{path}:{at}: column {e.start + 1}: 0x{byte:02x} is not UTF-8; save the table as that") from e
        yield line


def rows_of(lines, path):
    """The rows, of which the first names the columns."""
    try:
        yield from lines
    except csv.Error as e:
        raise Bad(f"{path}:{lines.line_num}: {e}; a quote that is not closed takes all that follows it") from e


def read(path):
    """The names of the columns, and the rows."""
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as f:
        start = f.read(4096)
        f.seek(0)
        delimiter = max(",;\t", key=start.split("\n", 1)[0].count)
        lines = csv.reader(texts_of(f, path), delimiter=delimiter)
        found = rows_of(lines, path)
        names, rows = next(found, []), []
        for row in found:
            if row and len(row) != len(names):
                raise Bad(f"{path}:{lines.line_num}: {len(row)} values, and {len(names)} columns have a name")
            if row:
                rows.append([" ".join(v.split()) for v in row])
    names = [" ".join(n.split()) for n in names]
    twice = next((n for i, n in enumerate(names) if n in names[:i]), None)
    if twice is not None:
        raise Bad(f"{path}: two columns are called '{twice}'; the first row has to name the columns")
    if not rows:
        raise Bad(f"{path}: no rows below the names of columns")
    return names, rows


def number(text):
    """NaN where it is missing, None where it is no number."""
    if text.lower() in MISSING:
        return math.nan
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def numbers_of(values, path, name):
    """A column of numbers, or None where it is one of texts."""
    column = [number(v) for v in values]
    texts = [i for i, v in enumerate(column) if v is None]
    if len(texts) * 2 > len(column):
        return None
    if texts:
        raise Bad(f"{path}: column '{name}' has numbers, but '{values[texts[0]]}' in row {texts[0] + 1} below "
                  "the names; remove what is no number, which then counts as missing")
    if all(math.isnan(v) for v in column):
        raise Bad(f"{path}: column '{name}' has no value at all; remove it")
    return column


def scale_of(column, trained):
    """Mean and deviation of the rows that are trained on; a deviation of 0 counts as 1."""
    known = [column[i] for i in trained if not math.isnan(column[i])]
    mean = statistics.fmean(known) if known else 0.0
    deviation = statistics.pstdev(known) if len(known) > 1 else 0.0
    return mean, deviation or 1.0


def scaled(column, trained):
    """Less the mean, over the deviation."""
    mean, deviation = scale_of(column, trained)
    return [0.0 if math.isnan(v) else (v - mean) / deviation for v in column]


def features(names, rows, label, trained, path):
    """Columns of numbers, each with what it is called."""
    for at, name in enumerate(names):
        if at == label:
            continue
        values = [row[at] for row in rows]
        column = numbers_of(values, path, name)
        if column is not None:
            yield name, scaled(column, trained)
            continue
        texts = sorted(set(values))
        if len(texts) > MOST_TEXTS:
            raise Bad(f"{path}: column '{name}' has {len(texts)} different texts, at most {MOST_TEXTS} can "
                      "be told apart; remove it")
        for text in texts:
            yield f"{name} = {text}", [float(v == text) for v in values]


def check_known(values, path, name):
    missing = next((i for i, v in enumerate(values) if v.lower() in MISSING), None)
    if missing is not None:
        raise Bad(f"{path}: row {missing + 1} below the names has no '{name}', which is what is learned")


def numbers(values, trained, path, name):
    """What is learned of each row, and how that is called."""
    column = numbers_of(values, path, name)
    if column is None:
        raise Bad(f"{path}: --number wants numbers, and '{name}' has texts")
    mean, deviation = scale_of(column, trained)
    return scaled(column, trained), f"'{name}' is learned as ({name} - {mean:.6g}) / {deviation:.6g}"


def classes(values, ranges, trained, path, name):
    """The class of each row, and what classes are called."""
    if ranges is None:
        texts = sorted(set(values))
        if len(texts) > MOST_TEXTS:
            raise Bad(f"{path}: '{name}' has {len(texts)} different values, which would be as many classes; "
                      "of numbers --ranges N makes N classes, and --number learns them as they are")
        return [texts.index(v) for v in values], texts
    column = numbers_of(values, path, name)
    if column is None:
        raise Bad(f"{path}: --ranges wants numbers, and '{name}' has texts")
    known = sorted(column[i] for i in trained)
    cuts = sorted({known[len(known) * k // ranges] for k in range(1, ranges)} - {known[0]})
    ends = [f"below {cuts[0]:g}"] if cuts else ["all"]
    ends += [f"{a:g} to {b:g}" for a, b in zip(cuts, cuts[1:])] + [f"{c:g} and above" for c in cuts[-1:]]
    return [bisect_right(cuts, v) for v in column], ends


def write(path, columns, labels, rows):
    """The rows as x [rows, columns] and y [rows], of classes or numbers."""
    of_numbers = isinstance(labels[0], float)
    x = array("f", (column[i] for i in rows for column in columns))
    y = array("f" if of_numbers else "q", (labels[i] for i in rows))
    if sys.byteorder == "big":
        x.byteswap()
        y.byteswap()
    end = len(x) * x.itemsize
    header = json.dumps({
        "x": {"dtype": "F32", "shape": [len(rows), len(columns)], "data_offsets": [0, end]},
        "y": {"dtype": "F32" if of_numbers else "I64", "shape": [len(rows)],
              "data_offsets": [end, end + len(y) * y.itemsize]},
    }).encode()
    header += b" " * (-len(header) % 8)
    temp = path.with_name(f".{path.name}.tmp-{os.getpid()}")
    try:
        with open(temp, "wb") as f:
            f.write(struct.pack("<Q", len(header)) + header)
            x.tofile(f)
            y.tofile(f)
        os.replace(temp, path)
    finally:
        temp.unlink(missing_ok=True)


def quoted(path):
    """As a configuration wants it."""
    return '"' + path.replace('"', '""') + '"' if any(c in path for c in ';#"') else path


def comment(text):
    """As lines of a configuration, where none may be long or have a control character; of what would
    fill pages, the begin."""
    shown = "".join(c if c.isprintable() else "?" for c in text)
    for line in textwrap.wrap(shown, 116, break_on_hyphens=False, max_lines=100, placeholder=" ..."):
        print(f"; {line}")


def tell(o, files, columns, called):
    """The parts of a configuration that the files ask for; what columns and labels are, as comments."""
    comment(f"{len(columns)} columns: {', '.join(columns)}")
    if o.number:
        comment(called)
    else:
        comment(f"{len(called)} classes of '{o.label}': {', '.join(f'{i} {c}' for i, c in enumerate(called))}")
    count = "" if o.number else f"classes = {len(called)}\n"
    print(f"[model]\nimage = 1\nchannels = {len(columns)}\n{count}\n[data]\nsource = tensors")
    for key, file in zip(("path", "eval_path"), files):
        print(f"{key} = {quoted(os.path.abspath(file))}")
    print(f"\n[train]\nbatch = {o.batch}")


def convert(o):
    names, rows = read(o.source)
    if o.label not in names:
        raise Bad(f"{o.source}: no column is called '{o.label}'; there are: {', '.join(names)}")
    label = names.index(o.label)
    order = list(range(len(rows)))
    random.Random(1).shuffle(order)
    held = order[:round(len(rows) * o.held)]
    trained = order[len(held):]
    if not trained:
        raise Bad(f"{o.source}: no row is left to train on; set --held lower")
    values = [row[label] for row in rows]
    check_known(values, o.source, o.label)
    if o.number:
        labels, called = numbers(values, trained, o.source, o.label)
    else:
        labels, called = classes(values, o.ranges, trained, o.source, o.label)
    found = list(features(names, rows, label, trained, o.source))
    if not found:
        raise Bad(f"{o.source}: no column beside '{o.label}'")
    columns = [column for _, column in found]
    files = [Path(f"{o.to}-{part}.safetensors") for part in ("train", "val")]
    write(files[0], columns, labels, trained)
    if held:
        write(files[1], columns, labels, held)
    tell(o, files[:2 if held else 1], [name for name, _ in found], called)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("source", type=Path)
    a.add_argument("to")
    a.add_argument("--label", required=True)
    a.add_argument("--batch", type=int, default=32)
    a.add_argument("--held", type=float, default=0.2)
    how = a.add_mutually_exclusive_group()
    how.add_argument("--ranges", type=int)
    how.add_argument("--number", action="store_true")
    o = a.parse_args()
    if o.batch < 1 or not 0 <= o.held < 1 or (o.ranges is not None and not 2 <= o.ranges <= MOST_TEXTS):
        a.error(f"--batch is 1 or more, --held at least 0 and below 1, --ranges 2 to {MOST_TEXTS}")
    try:
        convert(o)
    except (Bad, OSError) as e:
        print(f"table.py: {e}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())

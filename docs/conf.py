# How Sphinx makes pages of docs/, which can be searched: `cmake --build build --target docs`. They need neither a network
# nor the tree: links to files of the tree become downloads. A link or an anchor that leads nowhere is an error, and so is
# a page that index.md does not name.
import pathlib
import re

tree = pathlib.Path(__file__).resolve().parent.parent
project = "dnntrain"
author = copyright = "The authors of dnntrain"
release = version = re.search(r"^project\(dnntrain VERSION ([0-9.]+)", (tree / "CMakeLists.txt").read_text(), re.M).group(1)

extensions = ["myst_parser"]
root_doc = "index"
exclude_patterns = ["extending/*"]
myst_heading_anchors = 4
nitpicky = True
highlight_language = "none"
suppress_warnings = ["misc.highlighting_failure"]  # what programs print in between is no shell's

html_theme = "furo"
html_title = f"dnntrain {release}"
html_copy_source = False
html_show_sphinx = False


def contents(app, name, source):
    """The table of contents at the side: the sections of index.md, and the pages that they link to, in its order."""
    if name != root_doc:
        return
    text = source[0]
    for section in re.split(r"^## ", text, flags=re.M)[1:]:
        pages = dict.fromkeys(re.findall(r"\]\(([\w/-]+)\.md(?:#[\w-]+)?\)", section))
        source[0] += "\n```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```\n" % (section.split("\n")[0], "\n".join(pages))


def setup(app):
    app.connect("source-read", contents)

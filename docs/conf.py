"""The site: Sphinx with Furo and MyST over the pages of this folder. ``make docs`` builds it; a warning is an error.

The contents of the site are the lists of ``README.md``, so that a page is listed once.
"""

import re

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.writers.html5 import HTML5Translator

import specsim

project = "specsim"
author = "The specsim authors"
project_copyright = "2026, the specsim authors"
version = release = specsim.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_click",
    "sphinx_copybutton",
]
root_doc = "README"
exclude_patterns = ["examples", "live"]
nitpicky = False
keep_warnings = False

myst_enable_extensions = ["dollarmath", "fieldlist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
suppress_warnings = ["myst.xref_ambiguous"]

html_math_renderer = "mathml"
html_theme = "furo"
html_title = f"specsim {release}"
html_show_sourcelink = False
html_copy_source = False
highlight_language = "text"
pygments_style = "default"
pygments_dark_style = "monokai"

LISTED = re.compile(r"^- \[([^\]]+)\]\(([\w/.-]+)\.md\)", re.MULTILINE)
SECTION = re.compile(r"\b(?:0|[A-Q])\.\d+(?:\.\d+)?[a-c]?\b(?![.\d])")
"""The number of a section of the semantics."""

PLACES: dict[str, tuple[str, str]] = {}
"""The page and the anchor of each section, once all pages are read."""


def add_contents(app: Sphinx, docname: str, source: list[str]) -> None:
    """Give the front page a hidden table of contents for each of its headings, of the pages listed there."""
    if docname != root_doc:
        return
    # NOTE: the live page is written into the site when the site is there.
    source[0] = source[0].replace("[The live page](live)", '<a href="live/index.html">The live page</a>')
    for part in source[0].split("\n## ")[1:]:
        heading, _, text = part.partition("\n")
        pages = "\n".join(f"{title} <{page}>" for title, page in LISTED.findall(text))
        source[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{pages}\n```\n"


def link_sections(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Lead from each number of a section in the text, such as A.7, to where it stands."""
    for text in list(doctree.findall(nodes.Text)):
        parent = text.parent
        if isinstance(parent, (nodes.literal, nodes.reference, nodes.title, nodes.literal_block, nodes.raw)):
            continue
        parts: list[nodes.Node] = []
        end = 0
        for number in SECTION.finditer(text):
            place = PLACES.get(number[0])
            if place is None:
                continue
            page, anchor = place
            uri = f"#{anchor}" if page == docname else f"{app.builder.get_relative_uri(docname, page)}#{anchor}"
            link = nodes.reference("", number[0], internal=True, refuri=uri)
            parts += [nodes.Text(text[end : number.start()]), link]
            end = number.end()
        if parts:
            index = parent.index(text)
            parent.remove(text)
            parent.insert(index, [*parts, nodes.Text(text[end:])])


def find_sections(app: Sphinx, env: BuildEnvironment) -> None:
    """Note by its number the page and the anchor of each section of the semantics."""
    for docname in sorted(env.found_docs):
        if docname.startswith("reference/"):
            for section in env.get_doctree(docname).findall(nodes.section):
                number = SECTION.match(section.next_node(nodes.title).astext())
                if number is not None:
                    PLACES[number[0]] = (docname, section["ids"][0])


def setup(app: Sphinx) -> None:
    """Connect what is above, and write formulas as MathML, which needs no script."""
    app.connect("source-read", add_contents)
    app.connect("env-updated", find_sections)
    app.connect("doctree-resolved", link_sections)
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_displayed_math, None))


def visit_math(writer: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula in a line of text."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_displayed_math(writer: HTML5Translator, node: nodes.Element) -> None:
    """Write a formula in lines of its own."""
    writer.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode

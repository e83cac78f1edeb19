"""What all results have in common: data, text, JSON and a page."""

from __future__ import annotations

import html
import json
import os
from functools import cached_property
from typing import Any

from pagewalk._pagewalk import Document, read_result


def write(text: str, path: str | os.PathLike[str] | None) -> str:
    """Writes the text to the file, if one is given; returns the text."""
    if path is not None:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    return text


class Rendered:
    """A result that the library renders."""

    def __init__(self, document: Document) -> None:
        self._document = document

    @cached_property
    def data(self) -> dict[str, Any]:
        """The result as data, by the schema that `pagewalk schema` prints."""
        loaded: dict[str, Any] = json.loads(self.to_json())
        return loaded

    def to_json(self, path: str | os.PathLike[str] | None = None) -> str:
        """The result as JSON; also writes it to `path`, if given."""
        return write(self._document.json(), path)

    def text(self, verbose: bool = False, width: int = 100) -> str:
        """The result as the command prints it; `verbose` prints all of it."""
        return self._document.text(verbose, width)

    def show(self) -> None:
        """Shows the result: its sections in a notebook, its text elsewhere."""
        try:
            get_ipython  # type: ignore[name-defined]  # noqa: B018
        except NameError:
            print(self.text())
        else:
            from IPython.display import display

            # A terminal takes the text, a notebook the page.
            display(self._forms(), raw=True)

    def _forms(self) -> dict[str, str]:
        """The result by media type."""
        return {"text/plain": self.text()}

    def __str__(self) -> str:
        return self.text()


class Paged(Rendered):
    """A result that has a page, and can be read again."""

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Any:
        """Reads a result that `to_json`, `--json` or `-o RESULT.json` wrote."""
        with open(path, encoding="utf-8") as file:
            return cls._of_json(file.read())

    @classmethod
    def _of_json(cls, text: str) -> Any:
        return cls(read_result(text))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self)._of_json, (self.to_json(),), self._extras()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def _extras(self) -> dict[str, Any]:
        """What a copy in another process keeps besides the document."""
        kept = ("_document", "data")
        return {name: value for name, value in self.__dict__.items() if name not in kept}

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """The report as a self-contained page; also writes it to `path`, if given."""
        return write(self._document.html() or "", path)

    def _forms(self) -> dict[str, str]:
        return {**super()._forms(), "text/html": self._repr_html_()}

    def _repr_html_(self) -> str:
        # A frame keeps the page's style and scripts to itself.
        page = html.escape(self.to_html())
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 48em; border: 0"></iframe>'

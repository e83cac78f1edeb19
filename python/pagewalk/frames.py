"""Data frames, where polars is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import polars


def frame(rows: list[dict[str, Any]]) -> polars.DataFrame:
    """The rows as a data frame; a metric that a row lacks is null."""
    made: polars.DataFrame = _polars().DataFrame(rows, infer_schema_length=None)
    return made


def parquet(path: Path) -> polars.DataFrame:
    """A table of Parquet as a data frame."""
    read: polars.DataFrame = _polars().read_parquet(path)
    return read


def _polars() -> Any:
    try:
        import polars
    except ImportError as error:
        why = "data frames need polars: pip install 'pagewalk[frames]'"
        raise ImportError(why, name="polars") from error
    return polars

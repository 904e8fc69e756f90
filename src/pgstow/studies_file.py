"""The published studies that pgstow knows: their data files, to the model's Study.

Prices in what is wrong with a study are the catalog's, computed when it is read.
"""

from importlib.resources import files
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pgstow.catalog import load_shipped
from pgstow.layout_file import VolumeTable
from pgstow.model import Claim, Column, HostSpec, Levels, Mistake, PublishedRow, Study, UserError
from pgstow.toml_file import did_you_mean, explain, first_mistake, parse_tables
from pgstow.units import format_usd

_DOCUMENT = "docs/reference/experiment.md"
_PRICED_ON = HostSpec("ec2", "us-east-1")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ColumnTable(_Strict):
    """``[columns.NAME]``"""

    title: str
    unit: str = ""
    metric: str | None = None


class RowTable(_Strict):
    """``[[rows]]``"""

    label: str
    values: dict[str, float]
    levels: dict[str, str] = {}

    def row(self) -> PublishedRow:
        """The table as the model's value."""
        return PublishedRow(self.label, tuple(self.values.items()), _levels(self.levels))


class ClaimTable(_Strict):
    """``[[claims]]``: the ratio is that of the two rows' figures unless it is given, or only
    the ``side`` is claimed."""

    text: str
    metric: str
    over: dict[str, str]
    under: dict[str, str]
    ratio: Annotated[float, Field(gt=0)] | None = None
    side: Literal["higher", "lower"] | None = None
    tolerance: float = 0.25
    note: str = ""


class MistakeTable(_Strict):
    """``[[mistakes]]``; ``{NAME}`` in the truth is the monthly price of that volume."""

    says: str
    truth: str
    source: str
    volumes: dict[str, dict[str, str | int]] = {}

    def mistake(self) -> Mistake:
        """The table as the model's value, with the catalog's prices in its text."""
        prices = {name: format_usd(_usd_month(name, one)) for name, one in self.volumes.items()}
        return Mistake(self.says, self.truth.format(**prices), self.source)


class StudyTable(_Strict):
    """The whole file."""

    name: str
    title: str
    document: str
    publisher: str
    date: str
    where: str
    conditions: dict[str, str] = {}
    columns: dict[str, ColumnTable] = {}
    rows: list[RowTable] = []
    claims: Annotated[list[ClaimTable], Field(min_length=1)]
    mistakes: list[MistakeTable] = []

    def study(self) -> Study:
        """The file as the model's value."""
        rows = tuple(table.row() for table in self.rows)
        columns = tuple(
            Column(name, table.title, table.unit, table.metric)
            for name, table in self.columns.items()
        )
        for row in rows:
            for name, _ in row.values:
                if name not in self.columns:
                    what = f"row {row.label} has a value of {name}, which is no column"
                    raise UserError(what, did_you_mean(name, self.columns))
        return Study(
            name=self.name,
            title=self.title,
            document=self.document,
            publisher=self.publisher,
            date=self.date,
            where=self.where,
            conditions=tuple(self.conditions.items()),
            columns=columns,
            rows=rows,
            claims=tuple(_claim(table, columns, rows) for table in self.claims),
            mistakes=tuple(table.mistake() for table in self.mistakes),
        )


def _levels(table: dict[str, str]) -> Levels:
    return tuple(table.items())


def _usd_month(name: str, table: dict[str, str | int]) -> float | None:
    volume = VolumeTable.model_validate({"mount": f"/mnt/{name}"} | table).volume(name)
    return load_shipped().price(volume, _PRICED_ON).usd_month


def _claim(table: ClaimTable, columns: tuple[Column, ...], rows: tuple[PublishedRow, ...]) -> Claim:
    over, under = _levels(table.over), _levels(table.under)
    ratio = table.ratio
    if ratio is None and table.side is None:
        column = next((one.name for one in columns if one.metric == table.metric), None)
        found = [_published(column, levels, rows) for levels in (table.over, table.under)]
        if found[0] is None or found[1] is None:
            what = f"claim {table.text!r} has no ratio, and no two rows that give it"
            raise UserError(what, "write ratio, or the rows' values")
        ratio = found[0] / found[1]
    return Claim(
        table.text, table.metric, over, under, ratio, table.tolerance, table.note, table.side
    )


def _published(
    column: str | None, levels: dict[str, str], rows: tuple[PublishedRow, ...]
) -> float | None:
    row = next((row for row in rows if dict(row.levels) == levels), None)
    return None if row is None or column is None else row.value(column)


def study_names() -> tuple[str, ...]:
    """The published studies that pgstow knows."""
    directory = files("pgstow") / "data" / "studies"
    names = (entry.name for entry in directory.iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def read_study(name: str) -> Study:
    """The study of that name."""
    if name not in study_names():
        raise UserError(f"there is no study {name!r}", did_you_mean(name, study_names()))
    path = files("pgstow") / "data" / "studies" / f"{name}.toml"
    return parse_study(path.read_text(encoding="utf-8"), str(path))


def parse_study(text: str, source: str) -> Study:
    """Read a study from the text of a file; ``source`` names it in errors."""
    tables = parse_tables(text, source)
    try:
        return StudyTable.model_validate(tables).study()
    except ValidationError as error:
        mistake, more = first_mistake(error)
        message, remedy = explain(mistake, StudyTable, _DOCUMENT)
        raise UserError(f"{source}: {message}", remedy + more) from None
    except UserError as error:
        raise UserError(f"{source}: {error.message}", error.remedy) from None

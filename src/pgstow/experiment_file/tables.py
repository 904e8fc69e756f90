"""The tables of an experiment file, and the model's values of which each is the text."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from pgstow.layout_file import LayoutTable, Setting, Size
from pgstow.model import (
    DataChoice,
    Levels,
    Schedule,
    ServerChoice,
    Treatment,
    UserError,
    WorkloadChoice,
)
from pgstow.model.experiment import Caches, Target
from pgstow.units import Seconds, parse_duration

Fillfactor = Annotated[int, Field(ge=10, le=100)]


def _duration(value: object) -> Seconds:
    if not isinstance(value, str):
        raise ValueError("a duration is text with its unit; write it like 30s or 10min")
    return parse_duration(value)


Duration = Annotated[Seconds, BeforeValidator(_duration), Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ServerTable(_Strict):
    """``[server]``"""

    version: int = 18
    memory: Size | None = None
    settings: dict[str, Setting] = {}
    dsn: str | None = None

    def server(self) -> ServerChoice:
        """The table as the model's value."""
        return ServerChoice(self.version, tuple(self.settings.items()), self.memory)


class DataTable(_Strict):
    """``[data]``"""

    maker: str
    scale: int
    fillfactor: Fillfactor | None = None
    unlogged: bool | None = None
    extra_indexes: Annotated[int, Field(ge=0)] | None = None
    foreign_keys: bool | None = None
    partitions: Annotated[int, Field(ge=0)] | None = None
    benchmark: str | None = None
    tables: Annotated[int, Field(ge=1)] | None = None

    def data(self) -> DataChoice:
        """The table as the model's value; what is not given is left to the data's maker."""
        options = {
            name: _option(value)
            for name, value in self.model_dump(exclude={"maker", "scale"}).items()
            if value is not None
        }
        return DataChoice(self.maker, self.scale, tuple(options.items()))


def _option(value: bool | int | str) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)


class WorkloadTable(_Strict):
    """``[workload]``"""

    name: str
    clients: int
    threads: int = 2
    rate: Annotated[float, Field(allow_inf_nan=False)] | None = None
    latency_limit: Duration | None = None
    transactions: int | None = None
    sampling_rate: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    variables: dict[str, int] = {}

    def workload(self) -> WorkloadChoice:
        """The table as the model's value."""
        return WorkloadChoice(
            name=self.name,
            clients=self.clients,
            threads=self.threads,
            rate_per_s=self.rate,
            variables=tuple(self.variables.items()),
            latency_limit_ms=None if self.latency_limit is None else self.latency_limit * 1000,
            transactions=self.transactions,
            sampling_rate=self.sampling_rate,
        )


class ScheduleTable(_Strict):
    """``[schedule]``"""

    duration: Duration
    warm_up: Duration = Seconds(0.0)
    caches: Caches = "cold"
    settle: Duration = Seconds(0.0)
    commit_probe: Annotated[float, Field(allow_inf_nan=False)] = 0.0  # a second

    def schedule(self) -> Schedule:
        """The table as the model's value."""
        return Schedule(self.duration, self.warm_up, self.caches, self.settle, self.commit_probe)


class TreatmentTable(_Strict):
    """What one combination of levels comes to: the tables that factors may change."""

    layout: LayoutTable | None = None
    server: ServerTable = ServerTable()
    data: DataTable
    workload: WorkloadTable
    schedule: ScheduleTable

    def treatment(self, levels: Levels) -> Treatment:
        """The tables as the model's value."""
        return Treatment(
            levels=levels,
            workload=self.workload.workload(),
            data=self.data.data(),
            schedule=self.schedule.schedule(),
            server=self.server.server(),
            layout=None if self.layout is None else self.layout.layout(),
            dsn=self.server.dsn,
        )


CHANGEABLE = tuple(TreatmentTable.model_fields)


class FactorTable(_Strict):
    """``[factors.NAME]``: one key and its values, or levels that are tables of keys."""

    levels: list[Any] | dict[str, Any]
    key: str | None = None
    identical: bool = False


class ExperimentTable(_Strict):
    """The whole file; the tables that factors change are read once these are applied."""

    name: str
    title: str = ""
    study: str | None = None
    target: Target = "emulated"
    compare: str | None = None
    baseline: str | None = None
    blocks: int
    seed: int = 1
    side_by_side: bool = False
    layout: dict[str, Any] | None = None
    server: dict[str, Any] = {}
    data: dict[str, Any] = {}
    workload: dict[str, Any] = {}
    schedule: dict[str, Any] = {}
    factors: Annotated[dict[str, FactorTable], Field(min_length=1)]
    exclude: list[dict[str, str | list[str]]] = []
    profiles: dict[str, dict[str, Any]] = {}

    def compared(self) -> str:
        """The factor whose levels are compared with the baseline; by default the only factor."""
        if self.compare is None and len(self.factors) > 1:
            known = ", ".join(self.factors)
            raise UserError("compare: is missing", f"name the factor it is about, of {known}")
        return self.compare or next(iter(self.factors))

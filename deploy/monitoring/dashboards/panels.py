"""What a dashboard is made of, and how it becomes Grafana's JSON.

The boards themselves are tables of these values and know nothing of Grafana's SDK.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TypeVar

from grafana_foundation_sdk.builders import common, dashboard, prometheus, stat, timeseries
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.common import (
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
)
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DataSourceRef,
    Threshold,
    ThresholdsMode,
)

# The one that provisioning/datasources/prometheus.yml makes; another may be chosen on the page.
_DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
PER_SECOND = "count:/s"
"""The unit of how often something happens: Grafana counts, and writes /s behind the number."""
SECONDS_PER_SECOND = "count:s/s"
"""The unit of seconds, such as of sound, that come in a second."""
_HEIGHT = 8
_Built = TypeVar("_Built", timeseries.Panel, stat.Panel)


@dataclass(frozen=True)
class Query:
    """One line or figure: what Prometheus is asked, and what the legend says."""

    expression: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """One picture or figure on a dashboard."""

    title: str
    help: str
    """What it tells, and what a good value is."""
    unit: str
    """Grafana's name of it: s, percentunit, short, bytes, PER_SECOND …"""
    queries: tuple[Query, ...]
    limit: float | None = None
    """Lines: where a dashed red one is drawn; figures: from where on they are green."""
    figure: bool = False
    """The newest value as a number instead of lines over time."""
    columns: int = 8


@dataclass(frozen=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class Board:
    """One dashboard."""

    name: str
    """Of its file and in its address."""
    title: str
    help: str
    rows: tuple[Row, ...]

    def json(self) -> str:
        """As Grafana reads it."""
        built = _board(self).build()
        return json.dumps(built, cls=JSONEncoder, indent=1, sort_keys=True) + "\n"


def quantiles(histogram: str, by: str = "", where: str = "", *wanted: float) -> tuple[Query, ...]:
    """P50 and P95 of a histogram, or the quantiles that are wanted, by a label if one is given."""
    selected = _selected(f"{histogram}_bucket", where)
    labels = f"le, {by}" if by else "le"
    name = f" {_legend(by)}" if by else ""
    return tuple(
        Query(
            f"histogram_quantile({q:g}, sum by ({labels}) (rate({selected}[$__rate_interval])))",
            f"P{100 * q:g}{name}",
        )
        for q in wanted or (0.5, 0.95)
    )


def rates(counter: str, by: str) -> tuple[Query, ...]:
    """How often in a second, by labels."""
    return (Query(f"sum by ({by}) (rate({counter}[$__rate_interval]))", _legend(by)),)


def total(counter: str, legend: str) -> Query:
    """How often in a second, all together."""
    return Query(f"sum(rate({counter}[$__rate_interval]))", legend)


def level(gauge: str, by: str, where: str = "", *, how: str = "sum") -> tuple[Query, ...]:
    """What a gauge says now, by labels."""
    return (Query(f"{how} by ({by}) ({_selected(gauge, where)})", _legend(by)),)


def _selected(series: str, where: str) -> str:
    return f"{series}{{{where}}}" if where else series


def _legend(by: str) -> str:
    """The values of these labels, one after the other."""
    return " ".join(f"{{{{{label.strip()}}}}}" for label in by.split(","))


def _board(board: Board) -> dashboard.Dashboard:
    built = (
        dashboard.Dashboard(board.title)
        .uid(f"visavis-{board.name}")
        .description(board.help)
        .tags(["visavis"])
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("browser")
        .tooltip(DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(dashboard.DatasourceVariable("datasource").type("prometheus"))
    )
    number = 0
    for row in board.rows:
        number += 1
        built.with_row(dashboard.Row(row.title).id(number))
        for panel in row.panels:
            number += 1
            built.with_panel((_figure(panel) if panel.figure else _lines(panel)).id(number))
    return built


def _lines(panel: Panel) -> timeseries.Panel:
    legend = (
        common.VizLegendOptions()
        .show_legend(True)
        .display_mode(LegendDisplayMode.LIST)
        .placement(LegendPlacement.BOTTOM)
    )
    built = timeseries.Panel().legend(legend).line_width(1).fill_opacity(8).axis_soft_min(0)
    if panel.limit is not None:  # else Grafana keeps thresholds of lines to itself
        dashed = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
        built.thresholds_style(dashed)
    return _described(panel, built)


def _figure(panel: Panel) -> stat.Panel:
    return _described(panel, stat.Panel())


def _described(panel: Panel, built: _Built) -> _Built:
    colours = ("red", "green") if panel.figure else ("green", "red")
    thresholds = [Threshold(color=colours[0], value=None)]
    if panel.limit is not None:
        thresholds.append(Threshold(color=colours[1], value=panel.limit))
    (
        built.title(panel.title)
        .description(panel.help)
        .unit(panel.unit)
        .datasource(_DATASOURCE)
        .span(panel.columns)
        .height(_HEIGHT)
        .thresholds(dashboard.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(thresholds))
    )
    for index, query in enumerate(panel.queries):
        built.with_target(
            prometheus.Dataquery()
            .expr(query.expression)
            .legend_format(query.legend)
            .datasource(_DATASOURCE)
            .ref_id(chr(ord("A") + index))
            .exemplar(not panel.figure)
        )
    return built

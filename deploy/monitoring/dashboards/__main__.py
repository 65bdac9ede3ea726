"""Writes grafana/dashboards/*.json anew."""

from pathlib import Path

from deploy.monitoring.dashboards.capacity import CAPACITY
from deploy.monitoring.dashboards.doors import DOORS
from deploy.monitoring.dashboards.engines import ENGINES
from deploy.monitoring.dashboards.turn import TURN
from deploy.monitoring.dashboards.visitors import VISITORS

BOARDS = (VISITORS, DOORS, TURN, ENGINES, CAPACITY)
FOLDER = Path(__file__).parents[1] / "grafana" / "dashboards"

if __name__ == "__main__":
    for board in BOARDS:
        (FOLDER / f"{board.name}.json").write_text(board.json(), encoding="utf-8")

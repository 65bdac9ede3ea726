"""Engines and GPUs: lanes, batches, what a network runs on, and what its device does."""

from deploy.monitoring.dashboards.panels import (
    PER_SECOND,
    Board,
    Panel,
    Query,
    Row,
    level,
    quantiles,
    rates,
    total,
)

_LANES = Row(
    "Lanes",
    (
        Panel(
            "Wait for an engine's thread",
            "P95 by lane. Lanes of background work (loops, wardrobe, maker) may wait.",
            "s",
            quantiles("engine_queue_seconds", "lane", "", 0.95),
        ),
        Panel(
            "Requests that wait",
            "By lane, now.",
            "short",
            level("engine_queue_depth", "lane"),
        ),
        Panel(
            "Deadlines missed",
            "In a second: pictures whose time had passed before they were drawn, and those that "
            "left the gateway late.",
            PER_SECOND,
            (
                total("face_late_frames_total", "face: skipped"),
                total("gateway_late_pictures_total", "gateway: late"),
            ),
        ),
        Panel(
            "Requests in one run",
            "Mean by lane: the batch size. A CPU mostly chooses 1.",
            "short",
            (
                Query(
                    "sum by (lane) (rate(engine_batch_rows_sum[$__rate_interval])) / "
                    "sum by (lane) (rate(engine_batch_rows_count[$__rate_interval]))",
                    "{{lane}}",
                ),
            ),
        ),
        Panel(
            "Gain of batches",
            "How many times as much a run does in a second as runs of one request.",
            "short",
            level("engine_batch_gain", "lane", how="max"),
        ),
        Panel(
            "Frames in one pass of the face",
            "P50 and P95, of all sessions together.",
            "short",
            quantiles("face_pass_frames"),
        ),
        Panel(
            "One pass of the face",
            "To its last picture.",
            "s",
            quantiles("face_pass_seconds"),
        ),
        Panel(
            "Requests in the language model's engine",
            "Of backends that tell it (TensorRT-LLM): running, waiting, queued.",
            "short",
            level("llm_engine_requests", "state"),
        ),
        Panel(
            "Key-value cache",
            "Share in use, and share of blocks that were found in it; of backends that tell it.",
            "percentunit",
            (
                Query("max(llm_kv_cache_used_ratio)", "used"),
                Query("max(llm_kv_cache_hit_ratio)", "found"),
            ),
        ),
    ),
)

_STATE = Row(
    "What networks run on",
    (
        Panel(
            "Backend and device",
            "Processes whose network runs there now.",
            "short",
            level("engine_backend_info", "engine, backend, device"),
            columns=16,
        ),
        Panel(
            "Stepped down, and loaded anew",
            "Since the processes began; none are wanted.",
            "short",
            (
                Query(
                    "sum by (engine, from_backend, to_backend) (engine_degraded_total)",
                    "{{engine}}: {{from_backend}} to {{to_backend}}",
                ),
                Query("sum by (engine) (engine_restarts_total)", "{{engine}}: loaded anew"),
            ),
            limit=1,
            columns=8,
        ),
    ),
)

_PLANS = Row(
    "Compiled plans (GPU)",
    (
        Panel(
            "One run, by part",
            "P95: copying in, computing, copying out. Only with TensorRT.",
            "s",
            quantiles("engine_run_seconds", "engine, stage", "", 0.95),
            columns=12,
        ),
        Panel(
            "Memory of plans",
            "By network and kind. Only with TensorRT.",
            "bytes",
            level("engine_memory_bytes", "engine, kind"),
            columns=12,
        ),
    ),
)

_USED_GPU = Row(
    "GPUs that services run on, as they tell",
    (
        Panel(
            "GPU busy",
            "Share of time in which a kernel ran. Several services on a GPU tell the same.",
            "percentunit",
            level("gpu_utilization_ratio", "uuid", how="max"),
        ),
        Panel(
            "GPU memory",
            "In use by all processes, and what there is.",
            "bytes",
            (
                Query("max by (uuid) (gpu_memory_used_bytes)", "{{uuid}} used"),
                Query("max by (uuid) (gpu_memory_total_bytes)", "{{uuid}} there"),
            ),
        ),
        Panel(
            "GPU held back",
            "1: slower than it could be. power_cap is usual under load; heat and power_brake are "
            "not wanted.",
            "short",
            level("gpu_clocks_held_back", "uuid, reason", how="max"),
        ),
        Panel(
            "GPU power",
            "Watts.",
            "watt",
            level("gpu_power_watts", "uuid", how="max"),
            columns=12,
        ),
        Panel(
            "GPU temperature",
            "Degrees Celsius.",
            "celsius",
            level("gpu_temperature_celsius", "uuid", how="max"),
            columns=12,
        ),
    ),
)

_GPU = Row(
    "GPUs, as NVIDIA's DCGM exporter tells",
    (
        Panel(
            "Busy",
            "Share of time in which a kernel ran; it says nothing of how full the GPU was.",
            "percent",
            level("DCGM_FI_DEV_GPU_UTIL", "Hostname, gpu", how="max"),
        ),
        Panel(
            "Memory",
            "Used and free, MiB.",
            "mbytes",
            (
                Query("max by (Hostname, gpu) (DCGM_FI_DEV_FB_USED)", "{{Hostname}} {{gpu}} used"),
                Query("max by (Hostname, gpu) (DCGM_FI_DEV_FB_FREE)", "{{Hostname}} {{gpu}} free"),
            ),
        ),
        Panel(
            "Power",
            "Watts.",
            "watt",
            level("DCGM_FI_DEV_POWER_USAGE", "Hostname, gpu", how="max"),
        ),
        Panel(
            "Temperature",
            "Degrees Celsius.",
            "celsius",
            level("DCGM_FI_DEV_GPU_TEMP", "Hostname, gpu", how="max"),
        ),
        Panel(
            "Clock",
            "Of the multiprocessors, MHz; it falls where power or heat limits it.",
            "rotmhz",
            level("DCGM_FI_DEV_SM_CLOCK", "Hostname, gpu", how="max"),
        ),
        Panel(
            "Errors",
            "The last XID; 0 is wanted.",
            "short",
            level("DCGM_FI_DEV_XID_ERRORS", "Hostname, gpu", how="max"),
            limit=1,
        ),
    ),
)

_SIMULATED = Row(
    "Simulated devices (visavis bench simulate only)",
    (
        Panel(
            "Simulated: share of time at work",
            "Of devices that only take time.",
            "percentunit",
            rates("simulated_device_busy_seconds_total", "stage"),
        ),
        Panel(
            "Simulated: requests in one run",
            "Mean.",
            "short",
            (
                Query(
                    "sum by (stage) (rate(simulated_device_steps_total[$__rate_interval])) / "
                    "sum by (stage) (rate(simulated_device_runs_total[$__rate_interval]))",
                    "{{stage}}",
                ),
            ),
        ),
        Panel(
            "Simulated: lateness of the simulation",
            "What whoever waits gets on top.",
            "s",
            quantiles("simulated_device_late_seconds", "stage", "", 0.95),
        ),
    ),
)

ENGINES = Board(
    "engines",
    "visavis: engines and GPUs",
    "Lanes, batches, what networks run on, and what the devices do.",
    (_LANES, _STATE, _PLANS, _USED_GPU, _GPU, _SIMULATED),
)

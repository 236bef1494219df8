"""An NVML that exists only in tests: the functions of nvidia-ml-py that Ridgeline calls, for GPUs made of numbers."""

from dataclasses import dataclass, field
from types import SimpleNamespace


class NVMLError(Exception):
    """The base of NVML's errors."""


@dataclass
class FakeGpu:
    """The state of one GPU. None: the GPU does not support the figure."""

    address: str = "00000000:3B:00.0"
    ecc: dict[tuple[int, int], int] | None = field(
        default_factory=lambda: {(k, p): 0 for k in (0, 1) for p in (0, 1)}
    )
    rows: tuple[int, int, int, int] | None = (0, 0, 0, 0)
    pages: tuple[int, int] | None = None
    replays: int | None = 0
    links: dict[int, dict[int, int]] = field(default_factory=dict)  # link -> kind -> count
    violations: dict[int, int] = field(default_factory=lambda: {1: 0, 3: 0})  # policy -> ns
    fields: dict[int, int] = field(default_factory=lambda: {270: 0, 271: 0})  # field -> ns
    power: int | None = 700_000
    processes: tuple[int, ...] = ()


class FakeNvml:
    """A module like pynvml."""

    NVMLError = NVMLError
    NVML_SUCCESS = 0
    NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_MEMORY_ERROR_TYPE_UNCORRECTED = 0, 1
    NVML_VOLATILE_ECC, NVML_AGGREGATE_ECC = 0, 1
    (
        NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS,
        NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR,
    ) = 0, 1
    NVML_NVLINK_MAX_LINKS = 18
    NVML_NVLINK_ERROR_DL_REPLAY, NVML_NVLINK_ERROR_DL_RECOVERY = 0, 1
    NVML_NVLINK_ERROR_DL_CRC_FLIT, NVML_NVLINK_ERROR_DL_CRC_DATA = 2, 3
    NVML_PERF_POLICY_THERMAL, NVML_PERF_POLICY_BOARD_LIMIT = 1, 3
    NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN = 270
    NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN = 271

    def __init__(self, *gpus: FakeGpu, driver: bool = True) -> None:
        self.gpus, self.driver, self.is_open = gpus, driver, 0

    def nvmlInit(self) -> None:
        if not self.driver:
            raise NVMLError("Driver Not Loaded")
        self.is_open += 1

    def nvmlShutdown(self) -> None:
        self.is_open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        return self.gpus[index]

    def nvmlDeviceGetPciInfo(self, gpu: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(busId=gpu.address.encode())

    def nvmlDeviceGetName(self, gpu: FakeGpu) -> str:
        return "NVIDIA H100"

    def nvmlDeviceGetMemoryInfo(self, gpu: FakeGpu) -> SimpleNamespace:
        return SimpleNamespace(total=80 * 2**30)

    def nvmlDeviceGetEccMode(self, gpu: FakeGpu) -> list[int]:
        _there(gpu.ecc)
        return [1, 1]

    def nvmlDeviceGetTotalEccErrors(self, gpu: FakeGpu, kind: int, period: int) -> int:
        return _there(gpu.ecc)[kind, period]

    def nvmlDeviceGetRemappedRows(self, gpu: FakeGpu) -> tuple[int, int, int, int]:
        return _there(gpu.rows)

    def nvmlDeviceGetRetiredPages(self, gpu: FakeGpu, cause: int) -> list[int]:
        return [0x1000] * _there(gpu.pages)[cause]

    def nvmlDeviceGetPcieReplayCounter(self, gpu: FakeGpu) -> int:
        return _there(gpu.replays)

    def nvmlDeviceGetEnforcedPowerLimit(self, gpu: FakeGpu) -> int:
        return _there(gpu.power)

    def nvmlDeviceGetComputeRunningProcesses(self, gpu: FakeGpu) -> list[SimpleNamespace]:
        return [SimpleNamespace(pid=pid) for pid in gpu.processes]

    def nvmlDeviceGetNvLinkState(self, gpu: FakeGpu, link: int) -> int:
        if not gpu.links:
            raise NVMLError("Not Supported")
        return int(link in gpu.links)

    def nvmlDeviceGetNvLinkErrorCounter(self, gpu: FakeGpu, link: int, kind: int) -> int:
        return gpu.links[link].get(kind, 0)

    def nvmlDeviceGetViolationStatus(self, gpu: FakeGpu, policy: int) -> SimpleNamespace:
        return SimpleNamespace(violationTime=_there(gpu.violations.get(policy)))

    def nvmlDeviceGetFieldValues(self, gpu: FakeGpu, numbers: list[int]) -> list[SimpleNamespace]:
        return [
            SimpleNamespace(
                nvmlReturn=0 if number in gpu.fields else 3,
                value=SimpleNamespace(ullVal=gpu.fields.get(number, 0)),
            )
            for number in numbers
        ]


def _there(value):
    if value is None:
        raise NVMLError("Not Supported")
    return value

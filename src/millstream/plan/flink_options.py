"""Options of Flink and what answers them here: the table of `docs/differences-from-flink.md`.

A key that ends in `*` stands for all that begin so; the longest that fits decides.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

Standing = Literal["option", "by construction", "not offered"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FlinkOption:
    """What Flink lets one choose, where, and what is here instead."""

    subject: str
    names: str
    """Configuration keys, and methods as `method()`, between blanks."""
    answer: Standing
    here: str
    reason: str = ""

    @property
    def keys(self) -> list[str]:
        """The names that may stand in a configuration."""
        return [name for name in self.names.split() if not name.endswith("()")]

    @property
    def line(self) -> str:
        """The answer as one sentence."""
        return f"{self.answer}: {self.here}"


FLINK_OPTIONS: tuple[FlinkOption, ...] = (
    FlinkOption(
        subject="slot sharing",
        names="taskmanager.numberOfTaskSlots taskmanager.load-balance.mode slotmanager.* slotSharingGroup()",
        answer="by construction",
        here=(
            "a subtask takes whichever core of Spark is free; how many there are says `master=`, as in `local[8]`, "
            "or `-D spark.executor.cores=8`"
        ),
        reason="subtasks live for one epoch, so that none keeps a place",
    ),
    FlinkOption(
        subject="co-location of operators",
        names="setCoLocationGroupKey()",
        answer="not offered",
        here="steps without an exchange between them run in one task; across an exchange a subtask may run anywhere",
        reason="Spark places tasks, near their state where it can",
    ),
    FlinkOption(
        subject="resources of an operator",
        names="cluster.fine-grained-resource-management.* taskmanager.memory.managed.* setResources()",
        answer="not offered",
        here="`memory=MemoryBudget(…)` bounds what any task holds, `-D spark.executor.memory=…` sizes the processes",
        reason="a task runs the whole chain of a level, and all are alike",
    ),
    FlinkOption(
        subject="default parallelism",
        names="parallelism.default",
        answer="option",
        here="`Job(parallelism=…)`, `--parallelism`",
    ),
    FlinkOption(
        subject="parallelism of an operator",
        names="pipeline.jobvertex-parallelism-overrides setParallelism()",
        answer="not offered",
        here="one `parallelism` for all keyed steps; a source has as many tasks as it has splits, and not more",
        reason="a level is one shuffle, whatever steps it holds",
    ),
    FlinkOption(
        subject="key groups",
        names="pipeline.max-parallelism setMaxParallelism()",
        answer="option",
        here="`Job(max_parallelism=…)`",
    ),
    FlinkOption(
        subject="schedule mode and strategies",
        names=(
            "jobmanager.scheduler scheduler-mode jobmanager.adaptive-scheduler.* "
            "jobmanager.adaptive-batch-scheduler.* execution.runtime-mode execution.batch-shuffle-mode slot.* "
            "cluster.evenly-spread-out-slots"
        ),
        answer="by construction",
        here=(
            "an epoch is one job of Spark and runs level by level; bounded input is read in epochs too, and ends "
            "with the last of them"
        ),
        reason="Spark's scheduler decides; rescaling goes through a savepoint",
    ),
    FlinkOption(
        subject="fail-over strategy",
        names="jobmanager.execution.failover-strategy",
        answer="by construction",
        here=(
            "a failed task is repeated alone (`-D spark.task.maxFailures=4`), a failed epoch as a whole, from its "
            "logged plan"
        ),
        reason="tasks of an epoch hold no state of their own that others would have to give up",
    ),
    FlinkOption(
        subject="restart strategy",
        names="restart-strategy restart-strategy.*",
        answer="option",
        here="`EpochPolicy(tolerated_failures=…)`, `--tolerate-failures`",
        reason="the pause between restarts doubles by itself, up to ten seconds",
    ),
    FlinkOption(
        subject="operator coordinators",
        names="OperatorCoordinator()",
        answer="by construction",
        here=(
            "the planner on the driver decides splits, watermarks and alignment; a connector's part in it is its "
            "`SplitEnumerator`"
        ),
        reason="whatever coordinates must be in the logged plan, or a replay would differ",
    ),
    FlinkOption(
        subject="master hooks",
        names="MasterTriggerRestoreHook() WithMasterCheckpointHook()",
        answer="by construction",
        here=(
            "connectors take part in each epoch on the driver: `acknowledge` of a source, `prepare` and `publish` "
            "of a sink"
        ),
        reason="one protocol for everything outside that has to agree with a checkpoint",
    ),
    FlinkOption(
        subject="local recovery",
        names=(
            "state.backend.local-recovery execution.state-recovery.from-local "
            "execution.checkpointing.local-backup.* taskmanager.state.local.root-dirs"
        ),
        answer="by construction",
        here=(
            "Spark keeps loaded state in its executors and sends subtasks back to them; only what was lost is read "
            "from the checkpoint"
        ),
        reason="the state store is Spark's",
    ),
    FlinkOption(
        subject="network memory and buffers",
        names=(
            "taskmanager.memory.network.* taskmanager.network.* execution.buffer-timeout "
            "execution.buffer-timeout.* setBufferTimeout()"
        ),
        answer="option",
        here="`MemoryBudget(payload_bytes=…)`: how much a sender holds before it packs rows",
        reason=(
            "between levels rows lie in Spark's shuffle; there are no buffers to tune, and no back pressure but credit"
        ),
    ),
    FlinkOption(
        subject="object reuse",
        names="pipeline.object-reuse enableObjectReuse()",
        answer="by construction",
        here="steps of a chain hand batches and rows on without copying them",
        reason="a function that keeps a row keeps a dict of its own; Arrow batches do not change",
    ),
    FlinkOption(
        subject="operator chaining",
        names="pipeline.operator-chaining pipeline.operator-chaining.* disableChaining()",
        answer="option",
        here="`Job(chaining=False)`, `stream.start_new_chain()`",
        reason="steps without an exchange between them are one chain: it hands rows on without packing them",
    ),
    FlinkOption(
        subject="operator state",
        names="CheckpointedFunction() getUnionListState()",
        answer="not offered",
        here=(
            "positions of sources and watermarks stand in the manifest; `BroadcastState` is held whole by every "
            "subtask; all other state has a key"
        ),
        reason="state without a key could not be placed when the parallelism changes",
    ),
    FlinkOption(
        subject="partitioners",
        names="shuffle() rescale() global() partitionCustom()",
        answer="not offered",
        here="`key_by`, `rebalance` and `broadcast`",
        reason=(
            "a replayed row must reach the subtask it reached before; `rebalance` deals rows out by their place in "
            "the input"
        ),
    ),
    FlinkOption(
        subject="asynchronous and incremental snapshots",
        names=(
            "state.backend.async state.backend.incremental execution.checkpointing.incremental "
            "state.backend.changelog.*"
        ),
        answer="by construction",
        here="each epoch writes what changed, as Spark's changelog of the store; files are made in the background",
        reason="an epoch is the checkpoint: what it wrote is its snapshot",
    ),
    FlinkOption(
        subject="unaligned snapshots",
        names=(
            "execution.checkpointing.unaligned execution.checkpointing.unaligned.* "
            "execution.checkpointing.alignment-timeout execution.checkpointing.aligned-checkpoint-timeout "
            "execution.checkpointing.force-unaligned"
        ),
        answer="by construction",
        here="no barrier passes through the job, so that nothing is aligned and no row in flight is stored",
        reason="the cut is decided before the epoch runs",
    ),
    FlinkOption(
        subject="concurrent checkpoints",
        names="execution.checkpointing.max-concurrent-checkpoints",
        answer="by construction",
        here="one epoch at a time",
        reason="the next epoch starts from the state of the one before",
    ),
    FlinkOption(
        subject="minimum pause between checkpoints",
        names="execution.checkpointing.min-pause",
        answer="option",
        here="`EpochPolicy(min_pause=…)`, `--min-pause`",
    ),
    FlinkOption(
        subject="interval, timeout and mode of checkpoints",
        names=(
            "execution.checkpointing.interval execution.checkpointing.interval-during-backlog "
            "execution.checkpointing.timeout execution.checkpointing.mode enableCheckpointing()"
        ),
        answer="option",
        here="`Job(epoch_interval=…, guarantee=…)`, `EpochPolicy(timeout=…)`, `--epoch-timeout`",
        reason="output waits for its checkpoint, so that both have one interval",
    ),
    FlinkOption(
        subject="tolerated failed checkpoints",
        names="execution.checkpointing.tolerable-failed-checkpoints",
        answer="option",
        here="`EpochPolicy(tolerated_failures=…)`, `--tolerate-failures`",
        reason="an epoch that fails runs again; there is no going on without its checkpoint",
    ),
    FlinkOption(
        subject="externalized checkpoints",
        names=(
            "execution.checkpointing.externalized-checkpoint-retention execution.checkpointing.dir "
            "state.checkpoints.dir execution.checkpointing.storage state.checkpoint-storage "
            "execution.checkpointing.num-retained state.checkpoints.num-retained"
        ),
        answer="option",
        here="`checkpoint=DIR` outlives every run, `EpochPolicy(retained=…)`, `--retain` says how many epochs of it",
        reason="it is deleted by whoever owns the directory, never by a run",
    ),
    FlinkOption(
        subject="savepoints",
        names=(
            "execution.checkpointing.savepoint-dir state.savepoints.dir execution.savepoint.* "
            "execution.state-recovery.*"
        ),
        answer="option",
        here="`millstream savepoint create --to DIR`, `from_savepoint=`, `allow_dropped_state=`",
    ),
    FlinkOption(
        subject="state backend",
        names="state.backend state.backend.type state.backend.rocksdb.* setStateBackend()",
        answer="option",
        here=(
            '`state_backend="rocksdb"` or `"memory"`; RocksDB is tuned by `-D spark.sql.streaming.stateStore.rocksdb.…`'
        ),
        reason="both lie in Spark's store, see [decision 0022](decisions/0022-state-in-sparks-store.md)",
    ),
    FlinkOption(
        subject="remote state services",
        names="state.backend.forst.* queryable-state.* table.exec.async-state.*",
        answer="not offered",
        here="state is read with `ms.read_state` and `millstream state` from a checkpoint or savepoint",
        reason=(
            "a request per row would cost more than an epoch; see [decision "
            "0022](decisions/0022-state-in-sparks-store.md)"
        ),
    ),
    FlinkOption(
        subject="interval of watermarks",
        names="pipeline.auto-watermark-interval setAutoWatermarkInterval()",
        answer="option",
        here="`event_time(interval=…)`",
        reason="watermarks move between epochs",
    ),
    FlinkOption(
        subject="high availability",
        names="high-availability high-availability.* kubernetes.jobmanager.replicas",
        answer="by construction",
        here=(
            "start the same command elsewhere: it takes over when the lease has run out (`EpochPolicy(lease_term=…)`)"
        ),
        reason="head and sinks compare tokens, so that no service has to elect anyone",
    ),
    FlinkOption(
        subject="everything else about Flink's processes",
        names=(
            "taskmanager.* jobmanager.* resourcemanager.* cluster.* rest.* akka.* pekko.* heartbeat.* metrics.* "
            "pipeline.* execution.* state.* kubernetes.* yarn.* historyserver.* web.* blob.* table.*"
        ),
        answer="not offered",
        here="processes, memory and network are Spark's: `-D spark.…`",
        reason="there is no cluster of ours",
    ),
)

"""ReFrame's configuration for the machine at hand; a centre replaces or extends the list of systems.

`reframe -C centre/reframe/settings.py` on a laptop or inside an allocation starts ranks with mpiexec. The entries
below the first show what a Slurm and a PBS machine look like.
"""

site_configuration = {
    "systems": [
        {
            "name": "local",
            "descr": "this node, or the nodes of this allocation",
            "hostnames": [".*"],
            "partitions": [
                {
                    "name": "default",
                    "scheduler": "local",
                    "launcher": "mpiexec",
                    "environs": ["ridgeline"],
                    "max_jobs": 1,  # benchmarks that run at the same time disturb each other
                }
            ],
        },
        # {
        #     "name": "aurora",
        #     "hostnames": ["aurora-uan-.*"],
        #     "partitions": [
        #         {
        #             "name": "compute",
        #             "scheduler": "pbs",
        #             "launcher": "mpiexec",
        #             "access": ["-q prod", "-A PROJECT"],
        #             "environs": ["ridgeline"],
        #         }
        #     ],
        # },
        # {
        #     "name": "frontier",
        #     "hostnames": ["login.*frontier.*"],
        #     "partitions": [
        #         {
        #             "name": "batch",
        #             "scheduler": "slurm",
        #             "launcher": "srun",
        #             "access": ["-A PROJECT"],
        #             # Where `scontrol show config` says MpiDefault = none; pmix for Open MPI:
        #             # "env_vars": [["SLURM_MPI_TYPE", "pmi2"]],
        #             "environs": ["ridgeline"],
        #         }
        #     ],
        # },
    ],
    "environments": [{"name": "ridgeline"}],
    "logging": [
        {
            "handlers": [
                {"type": "stream", "name": "stdout", "level": "info", "format": "%(message)s"},
            ],
            "handlers_perflog": [
                {
                    "type": "filelog",
                    "prefix": "%(check_system)s/%(check_partition)s",
                    "level": "info",
                    "format": "%(check_result)s,%(check_info)s,%(check_job_completion_time)s,%(check_perfvalues)s",
                    "format_perfvars": "%(check_perf_var)s=%(check_perf_value)s %(check_perf_unit)s,",
                    "append": True,
                }
            ],
        }
    ],
}

#!/bin/sh
# task.sh DATE COMMAND [ARG...]: what a BashOperator runs; it runs the command under the lease of the task's key for that date. Airflow sets the
# AIRFLOW_CTX_ variables.
set -eu
date=$1
shift
exec pawl run --key "reports/$AIRFLOW_CTX_DAG_ID/$AIRFLOW_CTX_TASK_ID/$date" --holder "airflow@$(uname -n)" \
	--label "run=$AIRFLOW_CTX_DAG_RUN_ID" --label "try=$AIRFLOW_CTX_TRY_NUMBER" \
	--ttl 30s --fenced-exit-code 99 -- "$@"

"""A DAG whose task publishes a report for each day. It is for Airflow 2 and 3."""

from datetime import datetime, timedelta
from pathlib import Path

from airflow import DAG

try:
    from airflow.providers.standard.operators.bash import BashOperator
except ImportError:  # Airflow 2 without that provider
    from airflow.operators.bash import BashOperator

HERE = Path(__file__).resolve().parent

with DAG(
    dag_id="nightly",
    schedule="30 2 * * *",
    start_date=datetime(2026, 1, 1),
    catchup=False,
):
    BashOperator(
        task_id="sales",
        bash_command=f"{HERE}/task.sh {{{{ ds }}}} my-report --day {{{{ ds }}}}",
        # task.sh exits with 99 when it is fenced. That is also Airflow's default.
        skip_on_exit_code=99,
        # All else is tried again, also 75: then an earlier try is still alive and has the lease.
        retries=5,
        retry_delay=timedelta(minutes=1),
    )

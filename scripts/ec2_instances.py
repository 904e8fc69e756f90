"""Write the shipped table of EC2 instance types: what ``pgstow catalog update`` reads from AWS.

moto (PyPI, among the development dependencies) carries AWS's real DescribeInstanceTypes answers
and serves them on loopback; the command reads that server as it reads AWS:

    python scripts/ec2_instances.py
"""

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

from moto.server import ThreadedMotoServer

TARGET = Path(__file__).parent.parent / "src/pgstow/data"


def main() -> None:
    """Start the server, run the command against it, stop the server."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    source = f"AWS DescribeInstanceTypes, as recorded in moto {importlib.metadata.version('moto')}"
    command = ["pgstow", "catalog", "update", "--instances", "--region", "us-east-1"]
    try:
        subprocess.run(
            [*command, "--out", str(TARGET), "--source", source],
            check=True,
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "AWS_ENDPOINT_URL_EC2": f"http://{host}:{port}",
                "AWS_ACCESS_KEY_ID": "testing",
                "AWS_SECRET_ACCESS_KEY": "testing",
            },
        )
    finally:
        server.stop()


if __name__ == "__main__":
    main()

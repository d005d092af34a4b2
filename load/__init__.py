"""Load: agent-shaped sessions at a chosen pressure, on Locust.

`locust -f load/locustfile.py --host URL`, or `prefixproof-load NAME --host URL` (`python -m load NAME`).

Only `locustfile.py`, `cli.py` and the modules they start (`users.py`, `coordinator.py`, `sending.py`, `web_tab.py`)
know Locust. Plans, samples, predictions, gates and reports are plain data, and can be read without it.
"""

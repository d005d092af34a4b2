"""The day of the incident: one user's requests of 2026-08-17 as the public report tells them, on an engine of our own.

`inputs.py` what is put in, `acts.py` the day as a list, `talks.py` the clients, `model.py` the day on the cache model
(the fit), `play.py` over HTTP, `tables.py` the report's own tables from what was measured.
"""

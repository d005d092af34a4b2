"""Reports: one `RunReport` shown as a terminal table, JSON, JUnit and HTML. Nothing here knows how a result arose."""

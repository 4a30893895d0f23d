"""Choose: what an answer means and what comes next. No clock, disk, process or chance in here."""

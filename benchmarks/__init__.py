"""How long things take, beside what others take: ``python -m benchmarks``. See README.md here."""

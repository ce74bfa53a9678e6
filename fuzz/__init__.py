"""What is fuzzed, and how: ``make fuzz MINUTES=60``. `fuzz.targets` has the targets."""

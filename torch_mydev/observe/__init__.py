"""What happened: which operators fell back, what was dispatched and launched, what became of compiled graphs."""

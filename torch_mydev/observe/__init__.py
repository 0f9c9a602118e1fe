"""Reports of what ran: operators that fell back, what was dispatched and launched, and how graphs were compiled."""

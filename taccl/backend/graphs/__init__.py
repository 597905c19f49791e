"""Rings and trees that stock libraries take: schedule -> graphs -> file, read back and verified."""

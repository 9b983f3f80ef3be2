"""Campaigns: units of work spread over many machines, counted once each, and what they find kept in one folder."""

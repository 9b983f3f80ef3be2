"""The engine around the workers: models, pools, scheduler, loop. It takes a worker and imports none."""

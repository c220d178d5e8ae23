"""What runs beside the jobs: the sweep, this worker's presence, and hints to other workers."""

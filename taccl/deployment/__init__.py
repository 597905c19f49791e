"""Files into a job: plans converted and registered, folders of files, tuner files, and jobs that run them."""

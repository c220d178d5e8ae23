"""All that agents and workers agree on: values, names, keys, jobs, errors, script headers."""

"""Pictures of the commands: learning curves of `bayou compare`, the path of `bayou select`."""

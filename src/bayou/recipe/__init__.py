"""Recipe: how a raw row becomes an example; its names, numbers, hashes, groups, crosses and labels."""

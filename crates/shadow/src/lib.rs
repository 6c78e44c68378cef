//! Shadow threads: fork and join to a helper beside you in one cache line's round trip.

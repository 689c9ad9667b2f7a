"""The Nexmark auction site: persons, auctions and bids as a pure function of a seed and an event number."""

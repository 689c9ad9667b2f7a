"""The Nexmark queries as Millstream jobs."""

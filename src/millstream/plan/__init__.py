"""Plans: passes that turn a `StreamModel` into a `DeploymentPlan`, fingerprints, JSON and text forms."""

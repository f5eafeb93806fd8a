"""The intermediate representation and the flow from a graph to compiled partitions."""

"""What a flow leaves in CSV files beside its time series: the flow at places, forces on sides."""

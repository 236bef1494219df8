"""What joins the nodes: switches, links and groups (`fabric`), read from files (`files`), and their `routes`."""

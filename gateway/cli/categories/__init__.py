"""The operator's own categories on the command line: texts held against one (`spillway classify
--category`), and tables of exact values (`spillway values`)."""

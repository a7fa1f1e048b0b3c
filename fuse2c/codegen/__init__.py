"""From a plan to C: views, templates, output folder. Printers decide nothing."""

"""What tests look for in a report."""


def finding(report, rule):
    found = [each for each in report.findings if each.rule == rule]
    assert found, (rule, report.findings)
    return found[0]

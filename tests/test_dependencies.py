def test_highs_and_cp_sat_solve_in_one_process() -> None:
    """Both packages carry a libhighs; from highspy 1.15 on, the second to be imported fails."""
    import highspy
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    number = model.new_int_var(0, 9, "number")
    model.maximize(number)
    solver = cp_model.CpSolver()
    assert solver.solve(model) == cp_model.OPTIMAL
    assert solver.value(number) == 9

    highs = highspy.Highs()
    highs.silent()
    highs.addVar(0.0, 9.0)
    highs.changeColCost(0, -1.0)
    highs.run()
    assert highs.getModelStatus() == highspy.HighsModelStatus.kOptimal
    assert highs.getInfo().objective_function_value == -9.0

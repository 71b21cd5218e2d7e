//! An expression of a plan's node, ready to be evaluated: constants and parameters of the statement as their values,
//! anything else as the executor prepares it. And a function that a node calls although no expression does.

use pgrx::pg_sys;

/// A prepared expression.
#[derive(Clone, Copy)]
pub(super) enum Prepared {
    /// Its value; `None` for NULL.
    Constant(Option<pg_sys::Datum>),
    Expression(*mut pg_sys::ExprState),
}

impl Prepared {
    /// # Safety
    /// An expression of the plan of a node that begins.
    pub(super) unsafe fn new(expression: *mut pg_sys::Expr, node: *mut pg_sys::CustomScanState) -> Prepared {
        // SAFETY: the tag of a node says what structure it is.
        unsafe {
            let value = match (*expression.cast::<pg_sys::Node>()).type_ {
                pg_sys::NodeTag::T_Const => {
                    let constant = &*expression.cast::<pg_sys::Const>();
                    Some((!constant.constisnull).then_some(constant.constvalue))
                }
                pg_sys::NodeTag::T_Param => {
                    parameter(&*expression.cast::<pg_sys::Param>(), (*(*node).ss.ps.state).es_param_list_info)
                }
                _ => None,
            };
            match value {
                Some(value) => Prepared::Constant(value),
                None => Prepared::Expression(pg_sys::ExecInitExpr(expression, &raw mut (*node).ss.ps)),
            }
        }
    }

    /// The value; `None` for NULL.
    ///
    /// # Safety
    /// An expression of this node. The value lives until the next row is asked for.
    pub(super) unsafe fn value(self, node: *mut pg_sys::CustomScanState) -> Option<pg_sys::Datum> {
        match self {
            Prepared::Constant(value) => value,
            Prepared::Expression(expression) => {
                let mut null = false;
                // SAFETY: evaluated in the context for that, which is reset when the next row is asked for.
                let value = unsafe {
                    let context = (*node).ss.ps.ps_ExprContext;
                    pg_sys::ExecEvalExprSwitchContext(expression, context, &raw mut null)
                };
                (!null).then_some(value)
            }
        }
    }
}

/// A call of a strict function with one to three arguments, which the planner has added to the query. The user needs no EXECUTE privilege on it,
/// as on support functions of operator classes.
#[derive(Clone, Copy)]
pub(super) struct ImpliedCall(*mut pg_sys::FmgrInfo);

impl ImpliedCall {
    /// # Safety
    /// Such a function; the current memory context is that of the query.
    pub(super) unsafe fn new(function: pg_sys::Oid) -> ImpliedCall {
        // SAFETY: memory for the server's description of a function, which lives as long as the query.
        unsafe {
            let info = pg_sys::palloc0(size_of::<pg_sys::FmgrInfo>()).cast();
            pg_sys::fmgr_info(function, info);
            ImpliedCall(info)
        }
    }

    /// What the function makes of values.
    ///
    /// # Safety
    /// Values of the types of its arguments, none of them NULL, and a node of the query. The result lives until the next row is asked for.
    pub(super) unsafe fn value(
        self,
        arguments: &[pg_sys::Datum],
        node: *mut pg_sys::CustomScanState,
    ) -> pg_sys::Datum {
        // SAFETY: called in the context for that, which is reset when the next row is asked for; after an error the server
        // chooses another context itself.
        unsafe {
            let outer = pg_sys::MemoryContextSwitchTo((*(*node).ss.ps.ps_ExprContext).ecxt_per_tuple_memory);
            let none = pg_sys::InvalidOid;
            let value = match *arguments {
                [one, two, three] => pg_sys::FunctionCall3Coll(self.0, none, one, two, three),
                [one, two] => pg_sys::FunctionCall2Coll(self.0, none, one, two),
                _ => {
                    let one = arguments.first().copied().unwrap_or(pg_sys::Datum::null());
                    pg_sys::FunctionCall1Coll(self.0, none, one)
                }
            };
            pg_sys::MemoryContextSwitchTo(outer);
            value
        }
    }
}

/// The value of a parameter that the statement was given, which stays the same while it is executed; `None` if the executor
/// has to find it: a parameter of another kind, or one that a language computes when it is asked for.
///
/// # Safety
/// The parameters are null or those of the statement.
unsafe fn parameter(
    parameter: &pg_sys::Param,
    given: *const pg_sys::ParamListInfoData,
) -> Option<Option<pg_sys::Datum>> {
    // SAFETY: the list has `numParams` elements.
    unsafe {
        let given = given.as_ref().filter(|_| parameter.paramkind == pg_sys::ParamKind::PARAM_EXTERN)?;
        if given.paramFetch.is_some() || given.paramCompile.is_some() || parameter.paramid > given.numParams {
            return None;
        }
        let at = usize::try_from(parameter.paramid.checked_sub(1)?).ok()?;
        let value = &*given.params.as_ptr().add(at);
        (value.ptype == parameter.paramtype).then_some((!value.isnull).then_some(value.value))
    }
}

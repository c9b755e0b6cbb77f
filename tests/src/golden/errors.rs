//! What ipvsadm says to commands: exit status and both outputs, to the letter.

use super::gateway::Gateway;
use super::recording::Errors;
use super::report::Check;
use super::rules::Expected;
use super::unsupported;
use tidegate::ipvsadm;

pub(super) fn replay(
    scenario: &Errors,
    gateway: &mut dyn Gateway,
    check: &mut Check<'_>,
) -> Result<(), String> {
    // What the grammar refuses is refused whatever the table holds, so a table that cannot be made yet is no
    // obstacle then.
    let table_matters = ipvsadm::parse_line(&scenario.cmd).is_ok();
    for line in &scenario.setup {
        let output = gateway.command(line);
        if table_matters && output.exit != 0 {
            return Err(format!(
                "`ipvsadm {line}` gives {}: {}",
                output.exit,
                output.stderr.trim_end()
            ));
        }
    }
    let output = gateway.command(&scenario.cmd);
    if scenario.usage {
        check.expect(
            Expected::Printed(scenario.rc, String::new(), String::new()),
            &Expected::Printed(output.exit, String::new(), String::new()),
        );
    } else {
        let expected = Expected::Printed(scenario.rc, scenario.stdout.clone(), scenario.stderr.clone());
        check.expect(
            expected,
            &Expected::Printed(output.exit, output.stdout, output.stderr),
        );
    }
    if scenario.saved_after.is_some() && table_matters {
        check.skip(&unsupported::SAVED);
    }
    Ok(())
}

//! Room for the option: among the options, in the MSS, within the MTU, in fragments.

use super::*;

/// TOA-03: the server's answer leaves room, so that a client's full segment has it.
#[test]
fn an_mss_leaves_room() {
    for (family, announced, shown) in [(Family::V4, 1460u16, 1452u16), (Family::V6, 1440, 1420)] {
        if !FAMILIES.contains(&family) {
            continue;
        }
        let mss = |mss: u16| [&[2, 4][..], &mss.to_be_bytes(), &[4, 2, 1, 1]].concat();
        let mut told = Told::asked(Told::plan(family), family);
        let syn = told.client_says(SYN, 999, 0, b"").with_options(&mss(announced));
        told.goes(&syn, false);
        let answer = told
            .server_says(SYN | ACK, ISN, b"")
            .with_options(&mss(announced));
        let expected = answer.between(told.vip, told.client).later();
        assert_eq!(
            told.gateway.towards_client(&answer),
            expected.with_options(&mss(shown))
        );
        let full = told.client_says(ACK, 1000, FIRST, &vec![7; usize::from(shown)]);
        told.goes(&full, true);
        let too_full = told.client_says(ACK, 1000, FIRST, &vec![7; usize::from(shown) + 1]);
        told.goes(&too_full, false);
        assert_eq!(told.gateway.stats.toa_no_room.get(), 1);
    }
}

/// A service's own limit comes first: it may be there for the servers' links.
#[test]
fn a_clamped_mss_leaves_room_too() {
    for family in FAMILIES {
        let mut plan = Told::plan(family);
        plan.edit(0, |service| service.mss_clamp = 1300);
        let mut told = Told::asked(plan, family);
        let answer = told
            .server_says(SYN | ACK, ISN, b"")
            .with_options(&[2, 4, 5, 0xb4]);
        let room = told.option().len() as u16;
        let lowered = (1300 - room).to_be_bytes();
        let seen = told.gateway.towards_client(&answer);
        assert_eq!(options(&seen), [2, 4, lowered[0], lowered[1]]);
    }
}

/// TOA-03: options of 40 bytes, and of one word less than there is room for.
#[test]
fn full_options_go_as_they_are_and_are_counted() {
    for family in FAMILIES {
        let mut told = Told::answered(family);
        let most = 40 - told.option().len();
        for (len, fits) in [(40, false), (most + 4, false), (most, true)] {
            let own = [&[8, 10, 0, 0, 0, 1, 0, 0, 0, 2][..], &vec![1; len - 10]].concat();
            let sent = told
                .client_says(PSH | ACK, 1000, FIRST, b"data")
                .with_options(&own);
            told.goes(&sent, fits);
        }
        assert_eq!(told.gateway.stats.toa_no_room.get(), 2);
    }
}

/// The MTU is that of the port towards the server.
#[test]
fn an_mtu_is_never_exceeded() {
    for family in FAMILIES {
        for mtu in [1400, 1500, 9000] {
            let mut plan = Told::plan(family);
            plan.set_mtu(LAN, mtu);
            plan.set_mtu(WAN, 9000);
            let mut told = Told::asked(plan, family);
            told.answers();
            let headers = if family == Family::V4 { 40 } else { 60 };
            let room = usize::from(mtu) - headers - told.option().len();
            for (len, fits) in [(room, true), (room + 1, false)] {
                let sent = told.client_says(ACK, 1000, FIRST, &vec![7; len]);
                told.goes(&sent, fits);
            }
        }
    }
}

/// A segment that came in fragments leaves in fragments, with the option in the first.
#[test]
fn a_segment_in_fragments_tells_the_client() {
    for family in FAMILIES {
        let mut told = Told::answered(family);
        let sent = told.client_says(ACK, 1000, FIRST, &[7; 2000]).may_be_cut();
        let pieces = cut(&sent.packet(), 1000);
        assert_eq!(pieces.len(), 3);
        let mut out = Vec::new();
        for piece in &pieces {
            told.gateway.come(WAN, piece);
            out.extend(told.gateway.out());
        }
        let packets: Vec<_> = out.into_iter().map(|out| out.packet).collect();
        assert!(packets.len() > 1 && packets.iter().all(|packet| packet.len() <= pieces[0].len()));
        let mut seen = Wire::read(&assemble(&packets));
        if family == Family::V4 {
            // Fragments from a shared address have an identification of the gateway's.
            seen.label = sent.label;
        }
        assert!(seen == told.expected(&sent, true));
        assert_eq!(told.gateway.stats.toa_added.get(), 1);
    }
}

/// A router behind the gateway tells how much it takes: of that the client has the option's length less.
#[test]
fn a_narrow_hop_behind_the_gateway_is_told_with_room() {
    for family in FAMILIES {
        for told_to in [true, false] {
            let mut plan = Told::plan(family);
            if !told_to {
                plan.edit(0, |service| service.client_address = ClientAddress::None);
            }
            let mut told = Told::asked(plan, family);
            told.answers();
            let about = Wire::tcp(told.local, told.server, ACK, &[7; 1400]).packet();
            let (kind, code) = if family == Family::V4 { (3, 4) } else { (2, 0) };
            let router = family.server(7, 0).ip();
            let error = |mtu| Wire::icmp(router, told.local.ip(), kind, code, mtu, &about[..68]);
            let less = if told_to { told.option().len() as u32 } else { 0 };
            let errors = [(error(1380), 1380 - less), (error(0), 0)];
            for (sent, mtu) in errors {
                let seen = told.gateway.towards_client(&sent);
                assert_eq!(seen.message(), (kind, code, mtu));
                assert_eq!(quoted(seen.data()), (told.client, told.vip));
            }
            // The server is told what its own packets have to fit.
            let about = Wire::tcp(told.vip, told.client, ACK, &[7; 1400]).packet();
            let from = family.client(254, 0).ip();
            let sent = Wire::icmp(from, told.vip.ip(), kind, code, 1380, &about[..68]);
            assert_eq!(told.gateway.towards_server(&sent).message(), (kind, code, 1380));
        }
    }
}

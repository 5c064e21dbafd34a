"""Invented names, in no dictionary: where one stands in an answer, it stands for its original.

None begins, ends or contains another, in any case of letters, and none is a word of the languages
that the gateway knows; a model that writes of winter must not have it turned into Mrs Keller.
"""

from __future__ import annotations

GIVEN = tuple(
    (  # noqa: SIM905 - as a list, a line for each
        "Aurelind Belinora Calvessa Dorianka Elspetra Fiorenza Galdrina Henrivo Isolwen "
        "Jorvanna Kestrion Lucandra Maridess Nerissko Orlandro Petronik Quintessa Rosavere "
        "Silvanko Thessamyn Ulrikana Valdemir Wilhemar Xanthora Yolandis Zephrina Ambrosko "
        "Bertoldrin Cassimir Delphora Evandrin Florimel Gwendrin Hestiano Ingramar Jessamyn "
        "Klarinde Leopoldriss Melisandor Norvalda Odalinko Philomar Ragnaldo Serafinko "
        "Tancreda Ursilvan Vivendra Winifrek"
    ).split()
)
FAMILY = tuple(
    (  # noqa: SIM905 - as a list, a line for each
        "Abendrothen Brisolden Carrowmere Dunhalvern Ellingvard Fenwhistle Grimaldor "
        "Harrowgast Ivermoorens Jastrebov Kellwinder Lindqvaard Morgenstahl Northavel "
        "Oppenvelde Pellingray Quarrelmond Rotherwyck Stellingham Tarnowfeld Underhaugen "
        "Vandermoorn Westerlingk Yarrowtree Zellenbrook Ashgrovane Blackwendel Copperthorn "
        "Drachenmeer Eastermontz Farrendael Goldenhaupt Hollenbergk Irvingstone Juniperholt "
        "Kaltenmark Larkendale Mossgraven Nettlefoldt Osterwegen Pinkerwald Quintavellen "
        "Ravenscroftz Silverthorp Thornquist Umberfield Vossenkamp Whitlockens"
    ).split()
)
MAILBOXES = tuple(
    (  # noqa: SIM905 - as a list, a line for each
        "alpenglut birkwald cedarpost dovetrail emberlake finchgate glenhaven heronpost "
        "inkwater junobrook kiteharbor larchpost millhaven nightfern opalcreek pinepost "
        "quillhaven reedmarsh slatepost tidegarden umbrapost valeharbor willowpost yewgarden"
    ).split()
)
STREETS = tuple(
    (  # noqa: SIM905 - as a list, a line for each
        "Amberwick Brindlecote Cinderfell Dapplemoor Eiderwald Foxhallow Gorsehaven Hazelmeer "
        "Ironbridgen Jackdawson Kingsferry Lanternby Mistlethwaite Nuthatchen Otterbourne "
        "Plumstede Rookhaven Saltmarshe Thistledon Wrenbourne"
    ).split()
)
PARTICLES = frozenset(
    (  # noqa: SIM905 - as a list, a line for each
        "al bin da das de del della den der di do dos du el la le los ten ter van vom von y "
        "zu zum zur dr dr. mr mr. mrs mrs. ms ms. prof prof. herr frau sr sr. sra sra. mme m. "
        "jr jr. ii iii"
    ).split()
)
"""What stands in a name and identifies nobody; it stays."""
